/* gated_linear with a weight of floats.
 *
 * A constant weight is packed into panels of columns of G and of U. A weight that changes from call to call is packed panel by
 * panel into scratch.
 */
#include "gated_linear.h"

static eb_status plan(eb_node *node) {
    eb_status status = plan_gated_linear(node);
    if (status != EB_OK) return status;
    if (!eb_input(node, EB_IN_GATED_LINEAR_WEIGHT)->is_packed) node->scratch_bytes += product_tiling_of(node)->rows.K * EB_NR * 4;
    return EB_OK;
}

/* Columns [n, n + EB_VL) of G and of U, as far as there are, as a panel. */
static void pack_pair(const eb_tensor *w, int transposed, const eb_float_unaligned *weight, int64_t n, float *panel) {
    int64_t N = w->shape[!transposed] / 2, K = w->shape[transposed];
    int64_t n_step = w->stride[!transposed], k_step = w->stride[transposed], columns = eb_min(EB_VL, N - n);
    if (K && columns < EB_VL) memset(panel, 0, (size_t)(K * EB_NR) * 4);
    pack_columns(weight + n * n_step, k_step, n_step, K, columns, panel);
    pack_columns(weight + (N + n) * n_step, k_step, n_step, K, columns, panel + EB_VL);
}

/* Panels of EB_VL columns of G and as many of U. Number 0: whether the weight is transposed. */
static int64_t count_pairs(const eb_tensor *w, const int64_t *numbers) { return eb_ceil_div(w->shape[!numbers[0]] / 2, EB_VL); }

static int64_t bytes_of_pairs(const eb_tensor *w, const int64_t *numbers) {
    return EB_MULTIPLY(count_pairs(w, numbers), w->shape[numbers[0]], EB_NR, 4);
}

static void pack_pairs(const eb_tensor *w, const int64_t *numbers, const void *source, void *destination, int64_t begin,
                       int64_t end) {
    const int64_t K = w->shape[numbers[0]];
    for (int64_t i = begin; i < end; i++)
        pack_pair(w, (int)numbers[0], source, i * EB_VL, (float *)destination + i * EB_NR * K);
}

static void unpack_pairs(const eb_tensor *w, const int64_t *numbers, const void *packed, void *destination) {
    const int64_t transposed = numbers[0], N = w->shape[!transposed] / 2, K = w->shape[transposed];
    const int64_t n_step = w->stride[!transposed], k_step = w->stride[transposed];
    for (int64_t n = 0; n < N; n += EB_VL)
        for (int64_t half = 0; half < 2; half++)
            unpack_panel((const float *)packed + n / EB_VL * EB_NR * K + half * EB_VL, k_step, n_step, K, eb_min(EB_VL, N - n),
                         (float *)destination + (half * N + n) * n_step);
}

static const eb_packing pairs = {EB_PACKING_NAME("pairs"), bytes_of_pairs, count_pairs, pack_pairs, unpack_pairs};

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    numbers[0] = node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] != 0;
    return input == EB_IN_GATED_LINEAR_WEIGHT ? &pairs : NULL;
}

static void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    const eb_tensor *w = eb_input(node, EB_IN_GATED_LINEAR_WEIGHT);
    const float *weight = eb_data(w, bases);
    if (w->is_packed) {
        product->b = weight + n / EB_VL * EB_NR * product->K;
        product->next = next < 0 ? NULL : weight + next / EB_VL * EB_NR * product->K;
    } else {
        pack_pair(w, node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] != 0, weight, n, scratch);
        product->b = scratch;
    }
    multiply_panel(product);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_rows rows = float_rows(node, &product_tiling_of(node)->rows, bases);
    return run_gated_linear(node, bases, &rows, begin, end, scratch, multiply);
}
const eb_kernel EB_SYMBOL(gated_linear, packed) = {plan, run, choose_packing};
