/* linear with a weight of floats.
 *
 * A constant weight is packed into panels (packings.h). A weight that changes from call to call is packed panel by panel into scratch, or read
 * where it lies if its columns are contiguous and the rows of x are too few to pay for packing.
 */
#include "linear.h"

static eb_status plan(eb_node *node) {
    eb_status status = plan_linear(node);
    if (status != EB_OK) return status;
    const int64_t K = product_tiling_of(node)->rows.K;
    node->scratch_bytes = eb_input(node, EB_IN_LINEAR_WEIGHT)->is_packed ? 0 : K * EB_NR * 4;
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    return choose_weight_packing(node, input, &panels_packing, numbers);
}

EB_INLINE void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    const eb_tensor *w = eb_input(node, EB_IN_LINEAR_WEIGHT);
    const float *weight = eb_data(w, bases);
    if (w->is_packed) {
        product->b = weight + n * product->K;
        product->next = next < 0 ? NULL : weight + next * product->K;
    } else {
        const int columns = columns_axis(node);
        const int64_t n_step = w->stride[columns], k_step = w->stride[1 - columns];
        product->b = panel_of(weight + n * n_step, k_step, n_step, product->K, product->columns, product->M, scratch,
                              &product->ldb);
    }
    multiply_panel(product);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_rows rows = float_rows(node, &product_tiling_of(node)->rows, bases);
    return run_linear(node, bases, &rows, begin, end, scratch, multiply);
}
const eb_kernel EB_SYMBOL(linear, packed) = {plan, run, choose_packing};
