/* Reference of quantize_rows: engine/ops/quantize.py. */
#include "element.h"

#include "../ops.h"

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_QUANTIZE_ROWS_X);
    if (x->dtype != EB_F32) return EB_NOT_APPLICABLE;
    node->tiles = eb_tile_count(eb_size(eb_output(node) + 1), x->shape[x->rank - 1] + 1);
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, EB_IN_QUANTIZE_ROWS_X), *y = eb_output(node), *scales = y + 1;
    const int last = x->rank - 1;
    const int64_t rows = eb_size(scales), K = x->shape[last];
    eb_loop x_rows = eb_loop_axes(x, 0, last), y_rows = eb_loop_axes(y, 0, last), scale_rows = eb_loop_axes(scales, 0, last);
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        const float *from = (const float *)eb_data(x, bases) + eb_loop_offset(&x_rows, row);
        int8_t *to = (int8_t *)eb_data(y, bases) + eb_loop_offset(&y_rows, row);
        float most = 0;
        int is_finite = 1;
        for (int64_t k = 0; k < K; k++) {
            most = fmaxf(most, fabsf(from[k * x->stride[last]]));
            is_finite &= isfinite(from[k * x->stride[last]]) != 0;
        }
        const float scale = fmaxf(most / 127, 0x1p-126f), inverse = 1 / scale;
        for (int64_t k = 0; k < K; k++)
            to[k * y->stride[last]] = (int8_t)(is_finite ? rintf(from[k * x->stride[last]] * inverse) : 0);
        ((float *)eb_data(scales, bases))[eb_loop_offset(&scale_rows, row)] = is_finite ? scale : NAN;
    }
    return EB_OK;
}
const eb_kernel any_quantize_rows__generic_reference = {plan, run};
