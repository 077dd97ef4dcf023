/* gated_linear: y = activation(x @ G + g) * (x @ U + u), where W is G and U one after the other.
 *
 * A panel holds one vector of columns of G and, beside it, the same columns of U, so that one micro-tile has both factors
 * of a result: the product is finished on sums that still lie in the first-level cache, and no gate or up projection
 * ever goes to memory.
 */
#include "gemm.h"
#include "packings.h"

typedef struct {
    product_rows rows;
    int64_t row_tiles; /* tiles over rows */
    int64_t panels;    /* panels a tile */
} tiling;
EB_NODE_PLAN(tiling)

/* Rows of a tile: what `cut_product` makes of them at most, rounded up to whole micro-tiles. */
static int64_t most_tile_rows(int64_t M, int64_t row_tiles) { return eb_ceil_div(M, row_tiles) + EB_MR; }

static eb_status plan(eb_node *node) {
    tiling *p = edit_tiling(node);
    eb_status status = plan_product_rows(node, &p->rows);
    if (status != EB_OK) return status;
    eb_cut cut = cut_product(p->rows.M, eb_ceil_div(p->rows.N, EB_VL) * EB_NR, p->rows.K);
    p->row_tiles = cut.row_tiles;
    p->panels = cut.panels_a_tile;
    node->tiles = cut.row_tiles * cut.column_tiles;
    int64_t sums = cut.row_tiles ? most_tile_rows(p->rows.M, cut.row_tiles) : 0;
    node->scratch_bytes = (sums + (eb_input(node, EB_IN_GATED_LINEAR_WEIGHT)->is_packed ? 0 : p->rows.K)) * EB_NR * 4;
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
    return EB_PRODUCT(count_pairs(w, numbers), w->shape[numbers[0]], EB_NR, 4);
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

/* sums [rows, EB_NR]: gates, then ups; y [rows, columns]. */
static void multiply_out(float *sums, int64_t rows, int64_t columns, eb_activation activation, float *y, int64_t ldy) {
    if (activation) activation(sums, rows, EB_VL, EB_NR);
    for (int64_t m = 0; m < rows; m++, sums += EB_NR, y += ldy) {
        vf product = vf_load(sums) * vf_load(sums + EB_VL);
        if (columns == EB_VL)
            vf_store(y, product);
        else
            vf_store_part(y, product, columns);
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const tiling *p = tiling_of(node);
    const eb_tensor *given = eb_input(node, EB_IN_GATED_LINEAR_X), *w = eb_input(node, EB_IN_GATED_LINEAR_WEIGHT);
    const float *x = eb_data(given, bases), *weight = eb_data(w, bases);
    const float *bias = eb_optional_data(node, EB_IN_GATED_LINEAR_BIAS, bases);
    float *y = eb_data(eb_output(node), bases), *sums = scratch;
    float *panel = sums + most_tile_rows(p->rows.M, p->row_tiles) * EB_NR;
    int64_t N = p->rows.N, width = p->panels * EB_VL, column_tiles = node->tiles / p->row_tiles;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t m = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles);
        int64_t m_end = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles + 1);
        int64_t n = tile % column_tiles * width, n_end = eb_min(N, n + width);
        const int64_t after = eb_next_tile(tile, end);
        const float *next = NULL;
        if (w->is_packed && after < node->tiles)
            next = weight + after % column_tiles * p->panels * EB_NR * p->rows.K;
        for (; n < n_end; n += EB_VL) {
            int64_t columns = eb_min(EB_VL, n_end - n);
            float biases[EB_NR] = {0};
            if (bias) {
                memcpy(biases, bias + n, (size_t)columns * 4);
                memcpy(biases + EB_VL, bias + N + n, (size_t)columns * 4);
            }
            if (!w->is_packed) pack_pair(w, node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] != 0, weight, n, panel);
            eb_product product = {.M = m_end - m,
                                  .columns = EB_NR,
                                  .K = p->rows.K,
                                  .x = x + m * p->rows.x_row,
                                  .x_row = p->rows.x_row,
                                  .x_k = given->stride[given->rank - 1],
                                  .b = w->is_packed ? weight + n / EB_VL * EB_NR * p->rows.K : panel,
                                  .ldb = EB_NR,
                                  .next = n + EB_VL < n_end ? NULL : next,
                                  .y = sums,
                                  .ldy = EB_NR,
                                  .alpha = 1,
                                  .bias = biases};
            multiply_panel(&product);
            multiply_out(sums, product.M, columns, activations[node->ints[EB_INT_GATED_LINEAR_ACTIVATION]],
                         y + m * p->rows.y_row + n, p->rows.y_row);
        }
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(gated_linear, packed) = {plan, run, choose_packing};
