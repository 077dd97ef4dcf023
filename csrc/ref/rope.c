/* Reference of rope, in double. */
#include "../ops.h"
#include "element.h"

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ROPE_X);
    if (!eb_is_real(x->dtype)) return EB_NOT_APPLICABLE;
    int64_t D = x->shape[x->rank - 1];
    node->tiles = eb_tile_count(D ? eb_size(x) / D : 0, D);
    return EB_OK;
}

/* Offset of `t`, broadcast to x, at row `row` of x. */
static int64_t offset_of_row(const eb_tensor *t, const eb_tensor *x, int64_t row) {
    int64_t offset = 0;
    for (int axis = x->rank - 2; axis >= 0; axis--) {
        offset += row % x->shape[axis] * eb_broadcast_stride(t, x->rank, axis);
        row /= x->shape[axis];
    }
    return offset;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, EB_IN_ROPE_X), *cosine = eb_input(node, EB_IN_ROPE_COS);
    const eb_tensor *sine = eb_input(node, EB_IN_ROPE_SIN), *y = eb_output(node);
    int last = x->rank - 1;
    int64_t D = x->shape[last], rows = D ? eb_size(x) / D : 0;
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        int64_t x_at = offset_of_row(x, x, row), y_at = offset_of_row(y, x, row);
        int64_t cosine_at = offset_of_row(cosine, x, row), sine_at = offset_of_row(sine, x, row);
        for (int64_t i = 0; i < D; i++) {
            int64_t partner = i < D / 2 ? i + D / 2 : i - D / 2;
            double own = eb_load_real(x->dtype, eb_data(x, bases), x_at + i * x->stride[last]);
            double other = eb_load_real(x->dtype, eb_data(x, bases), x_at + partner * x->stride[last]);
            double c = eb_load_real(x->dtype, eb_data(cosine, bases), cosine_at + i * cosine->stride[cosine->rank - 1]);
            double s = eb_load_real(x->dtype, eb_data(sine, bases), sine_at + i * sine->stride[sine->rank - 1]);
            eb_store_real(y->dtype, eb_data(y, bases), y_at + i * y->stride[last], own * c + (i < D / 2 ? -other : other) * s);
        }
    }
    return EB_OK;
}
const eb_kernel any_rope__generic_reference = {plan, run};
