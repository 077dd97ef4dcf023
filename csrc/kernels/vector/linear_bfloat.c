/* linear in bfloat16: x is rounded once (bfloat.h), and a constant weight is packed into panels of pairs. */
#include "linear.h"

#include "bfloat.h"

static eb_status plan(eb_node *node) {
    if (!eb_input(node, EB_IN_LINEAR_WEIGHT)->is_packed) return EB_NOT_APPLICABLE;
    eb_status status = plan_linear(node);
    return status == EB_OK ? plan_bfloat_rows(node, &product_tiling_of(node)->rows) : status;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    return choose_weight_packing(node, input, &bfloat_panels_packing, numbers);
}

static void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    const product_rows *p = &product_tiling_of(node)->rows;
    const float *weight = eb_data(eb_input(node, EB_IN_LINEAR_WEIGHT), bases);
    const int64_t pairs = count_pairs(p->K);
    multiply_bfloat_rows(p, weight + n * pairs, next < 0 ? NULL : weight + next * pairs, scratch, product);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const product_rows *p = &product_tiling_of(node)->rows;
    const int64_t first = run_rounding(node, p, bases, begin, end);
    const eb_rows rows = bfloat_rows(node, p, bases);
    return run_linear(node, bases, &rows, first, end - node->tiles, scratch, multiply);
}
const eb_kernel EB_PASTE(bd16_bf16w_linear, __, EB_ISA, _, packed, ) = {plan, run, choose_packing};
