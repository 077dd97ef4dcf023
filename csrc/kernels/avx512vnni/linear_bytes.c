/* linear with a constant weight of 8 bits and a scale for each column of the result, by digits (digits.h). */
#include "digits.h"

#include "../vector/linear.h"

static eb_status plan(eb_node *node) {
    if (!is_narrow_weight(eb_input(node, EB_IN_LINEAR_WEIGHT), columns_axis(node))) return EB_NOT_APPLICABLE;
    eb_status status = plan_linear(node);
    if (status == EB_OK) plan_digits(node, &product_tiling_of(node)->rows);
    return status;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    return choose_weight_packing(node, input, &quad_panels_packing, numbers);
}

static void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    (void)next;
    const product_rows *p = &product_tiling_of(node)->rows;
    const uint8_t *quads = eb_data(eb_input(node, EB_IN_LINEAR_WEIGHT), bases);
    float scales[EB_NR] = {0};
    read_scales(node, bases, EB_IN_LINEAR_WEIGHT, n, product->columns, scales);
    multiply_quads(node, p, bases, product, quads + n * 4 * count_quads(p->K), scales, scratch);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const product_rows *p = &product_tiling_of(node)->rows;
    const eb_rows rows = float_rows(node, p, bases);
    run_digits(node, p, bases, &begin, &end);
    return run_linear(node, bases, &rows, begin, end, scratch, multiply);
}
const eb_kernel f32_qc8w_linear__avx512vnni_packed = {plan, run, choose_packing};
