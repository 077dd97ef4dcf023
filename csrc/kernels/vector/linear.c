/* linear: y = activation(alpha * x @ W + bias + residual).
 *
 * A constant weight is packed into panels (packings.h). A weight that changes from call to call is packed panel by panel into scratch, or read
 * where it lies if its columns are contiguous and the rows of x are too few to pay for packing.
 */
#include "gemm.h"
#include "packings.h"

typedef struct {
    product_rows rows;
    int64_t residual_row; /* from row to row of the residual */
    int64_t row_tiles;    /* tiles over rows */
    int64_t panels;       /* panels a tile */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node) {
    tiling *p = edit_tiling(node);
    eb_status status = plan_product_rows(node, &p->rows);
    if (status != EB_OK) return status;
    const eb_tensor *residual = eb_optional_input(node, EB_IN_LINEAR_RESIDUAL);
    if (residual && (!rows_of(residual, &p->residual_row) || !unit_columns(residual))) return EB_NEEDS_DENSE;
    eb_cut cut = cut_product(p->rows.M, p->rows.N, p->rows.K);
    p->row_tiles = cut.row_tiles;
    p->panels = cut.panels_a_tile;
    node->tiles = cut.row_tiles * cut.column_tiles;
    node->scratch_bytes = eb_input(node, EB_IN_LINEAR_WEIGHT)->is_packed ? 0 : p->rows.K * EB_NR * 4;
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const int transposed = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] != 0;
    return input == EB_IN_LINEAR_WEIGHT ? choose_panels(!transposed, transposed, numbers) : NULL;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const tiling *p = tiling_of(node);
    const eb_tensor *given = eb_input(node, EB_IN_LINEAR_X), *w = eb_input(node, EB_IN_LINEAR_WEIGHT);
    const float *x = eb_data(given, bases), *weight = eb_data(w, bases);
    const float *bias = eb_optional_data(node, EB_IN_LINEAR_BIAS, bases);
    const float *residual = eb_optional_data(node, EB_IN_LINEAR_RESIDUAL, bases);
    float *y = eb_data(eb_output(node), bases);
    int transposed = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] != 0;
    int64_t n_step = w->stride[!transposed], k_step = w->stride[transposed];
    int64_t column_tiles = node->tiles / p->row_tiles;
    const float clamp = clamp_of(node->ints[EB_INT_LINEAR_ACTIVATION]);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t m = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles);
        int64_t m_end = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles + 1);
        int64_t n = tile % column_tiles * p->panels * EB_NR, n_end = eb_min(p->rows.N, n + p->panels * EB_NR);
        const int64_t after = eb_next_tile(tile, end);
        const float *next = NULL;
        if (w->is_packed && after < node->tiles)
            next = weight + after % column_tiles * p->panels * EB_NR * p->rows.K;
        for (; n < n_end; n += EB_NR) {
            eb_product product = {.M = m_end - m,
                                  .columns = eb_min(EB_NR, n_end - n),
                                  .K = p->rows.K,
                                  .x = x + m * p->rows.x_row,
                                  .x_row = p->rows.x_row,
                                  .x_k = given->stride[given->rank - 1],
                                  .b = weight + n * p->rows.K,
                                  .ldb = EB_NR,
                                  .next = n + EB_NR < n_end ? NULL : next,
                                  .y = y + m * p->rows.y_row + n,
                                  .ldy = p->rows.y_row,
                                  .alpha = (float)node->reals[EB_REAL_LINEAR_ALPHA],
                                  .bias = bias ? bias + n : NULL,
                                  .residual = residual ? residual + m * p->residual_row + n : NULL,
                                  .ldr = p->residual_row,
                                  .activation = clamp > 0 ? NULL : activations[node->ints[EB_INT_LINEAR_ACTIVATION]],
                                  .clamp = clamp};
            if (!w->is_packed)
                product.b = panel_of(weight + n * n_step, k_step, n_step, p->rows.K, product.columns, product.M, scratch,
                                     &product.ldb);
            multiply_panel(&product);
        }
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(linear, packed) = {plan, run, choose_packing};
