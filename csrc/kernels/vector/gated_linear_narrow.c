/* gated_linear with a constant weight of halves or of bytes with scales (narrow.h). */
#include "gated_linear.h"

#include "narrow.h"

static eb_status plan(eb_node *node) {
    if (!is_narrow_weight(eb_input(node, EB_IN_GATED_LINEAR_WEIGHT), columns_axis(node))) return EB_NOT_APPLICABLE;
    eb_status status = plan_gated_linear(node);
    if (status != EB_OK) return status;
    const product_rows *rows = &product_tiling_of(node)->rows;
    node->scratch_bytes += narrow_scratch(rows->M, rows->K);
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const eb_narrow how = describe_narrow(eb_input(node, EB_IN_GATED_LINEAR_WEIGHT));
    return choose_weight_packing(node, input, how.gates, numbers);
}

static void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    (void)next;
    const eb_tensor *w = eb_input(node, EB_IN_GATED_LINEAR_WEIGHT);
    const eb_narrow how = describe_narrow(w);
    const char *panel = (const char *)eb_data(w, bases) + n / EB_VL * EB_NR * product->K * how.bytes;
    float scales[EB_NR];
    if (how.has_scales) read_gate_scales(node, bases, product_tiling_of(node)->rows.N, n, scales);
    how.multiply(product, panel, scales, scratch);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_rows rows = float_rows(node, &product_tiling_of(node)->rows, bases);
    return run_gated_linear(node, bases, &rows, begin, end, scratch, multiply);
}
const eb_kernel EB_PASTE(f32_f16w_gated_linear, __, EB_ISA, _, packed, ) = {plan, run, choose_packing};
const eb_kernel EB_PASTE(f32_qc8w_gated_linear, __, EB_ISA, _, packed, ) = {plan, run, choose_packing};
