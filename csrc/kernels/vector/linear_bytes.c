/* linear with a constant weight of 8 bits and a scale for each column of the result (bytes.h). */
#include "linear.h"

#include "bytes.h"
#include "packings.h"

static eb_status plan(eb_node *node) {
    const eb_tensor *w = eb_input(node, EB_IN_LINEAR_WEIGHT);
    if (!w->is_packed || w->axis != (node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] ? 0 : 1)) return EB_NOT_APPLICABLE;
    eb_status status = plan_linear(node);
    if (status != EB_OK) return status;
    const product_rows *rows = &linear_tiling_of(node)->rows;
    node->scratch_bytes = byte_scratch(rows->M, rows->K);
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const int transposed = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] != 0;
    if (input != EB_IN_LINEAR_WEIGHT) return NULL;
    return choose_packing_of(&byte_panels_packing, !transposed, transposed, numbers);
}

static void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    (void)next;
    const int8_t *bytes = eb_data(eb_input(node, EB_IN_LINEAR_WEIGHT), bases);
    float scales[EB_NR] = {0};
    read_scales(node, bases, EB_IN_LINEAR_WEIGHT, n, product->columns, scales);
    multiply_byte_panel(product, bytes + n * product->K, scales, scratch);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_rows rows = float_rows(node, &linear_tiling_of(node)->rows, bases);
    return run_linear(node, bases, &rows, begin, end, scratch, multiply);
}
const eb_kernel EB_PASTE(f32_qc8w_linear, __, EB_ISA, _, packed, ) = {plan, run, choose_packing};
