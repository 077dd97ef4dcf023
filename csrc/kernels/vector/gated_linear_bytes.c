/* gated_linear with a constant weight of 8 bits and a scale for each column of the result (bytes.h). */
#include "gated_linear.h"

#include "bytes.h"
#include "packings.h"

static eb_status plan(eb_node *node) {
    const eb_tensor *w = eb_input(node, EB_IN_GATED_LINEAR_WEIGHT);
    if (!w->is_packed || w->axis != (node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] ? 0 : 1)) return EB_NOT_APPLICABLE;
    eb_status status = plan_gated_linear(node);
    if (status != EB_OK) return status;
    const product_rows *rows = &gated_tiling_of(node)->rows;
    node->scratch_bytes += byte_scratch(rows->M, rows->K);
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const int transposed = node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] != 0;
    if (input != EB_IN_GATED_LINEAR_WEIGHT) return NULL;
    return choose_packing_of(&byte_gates_packing, !transposed, transposed, numbers);
}

static void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    (void)next;
    const int8_t *bytes = eb_data(eb_input(node, EB_IN_GATED_LINEAR_WEIGHT), bases);
    const int64_t N = gated_tiling_of(node)->rows.N, columns = eb_min(EB_VL, N - n);
    float scales[EB_NR] = {0};
    for (int half = 0; half < 2; half++)
        read_scales(node, bases, EB_IN_GATED_LINEAR_WEIGHT, half * N + n, columns, scales + half * EB_VL);
    multiply_byte_panel(product, bytes + n / EB_VL * EB_NR * product->K, scales, scratch);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_rows rows = float_rows(node, &gated_tiling_of(node)->rows, bases);
    return run_gated_linear(node, bases, &rows, begin, end, scratch, multiply);
}
const eb_kernel EB_PASTE(f32_qc8w_gated_linear, __, EB_ISA, _, packed, ) = {plan, run, choose_packing};
