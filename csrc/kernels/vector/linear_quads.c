/* linear of bytes: x is what quantize_rows made, and a constant weight of bytes is packed into panels of quads (quads.h). */
#include "linear.h"

#include "quads.h"

static eb_status plan(eb_node *node) {
    if (!is_narrow_weight(eb_input(node, EB_IN_LINEAR_WEIGHT), columns_axis(node))) return EB_NOT_APPLICABLE;
    eb_status status = plan_linear(node);
    return status == EB_OK ? plan_quad_rows(node, &product_tiling_of(node)->rows, EB_IN_LINEAR_SCALE) : status;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    return choose_weight_packing(node, input, &quad_panels_packing, numbers);
}

static void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    const float *weight = eb_data(eb_input(node, EB_IN_LINEAR_WEIGHT), bases);
    const int64_t quads = count_quads(product_tiling_of(node)->rows.K);
    float scales[EB_NR] = {0};
    read_scales(node, bases, EB_IN_LINEAR_WEIGHT, n, product->columns, scales);
    product->scales = scales;
    product->b = weight + n * quads;
    product->next = next < 0 ? NULL : weight + next * quads;
    multiply_quad_panel(product, scratch);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const product_rows *p = &product_tiling_of(node)->rows;
    const int64_t first = run_quad_rows(node, p, bases, EB_IN_LINEAR_SCALE, begin, end);
    const eb_rows rows = quad_rows(node, p, bases);
    return run_linear(node, bases, &rows, first, end - node->tiles, scratch, multiply);
}
const eb_kernel EB_PASTE(qd8_qc8w_linear, __, EB_ISA, _, packed, ) = {plan, run, choose_packing};
