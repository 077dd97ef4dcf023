/* What the kernels of linear share: y = activation(alpha * x @ W + bias + residual), whatever W is stored as. A kernel says how
 * one panel of columns is multiplied. */
#ifndef EB_LINEAR_H
#define EB_LINEAR_H

#include "gemm.h"
#include "packings.h"

typedef struct {
    product_rows rows;
    int64_t residual_row; /* from row to row of the residual */
    int64_t row_tiles;    /* tiles over rows */
    int64_t panels;       /* panels a tile */
} linear_tiling;
EB_NODE_PLAN(linear_tiling)

static inline int64_t count_column_tiles(const linear_tiling *p) {
    return eb_ceil_div(eb_ceil_div(p->rows.N, EB_NR), p->panels);
}

/* The axis of the weight that becomes the columns of the result. */
static inline int columns_axis(const eb_node *node) { return node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] ? 0 : 1; }

/* `packing` if `input` is the weight, otherwise NULL. */
static inline const eb_packing *choose_weight_packing(const eb_node *node, int32_t input, const eb_packing *packing,
                                                      int64_t *numbers) {
    const int columns = columns_axis(node);
    return input == EB_IN_LINEAR_WEIGHT ? choose_packing_of(packing, columns, 1 - columns, numbers) : NULL;
}

/* All but the working memory. */
static inline eb_status plan_linear(eb_node *node) {
    linear_tiling *p = edit_linear_tiling(node);
    eb_status status = plan_product_rows(node, &p->rows);
    if (status != EB_OK) return status;
    const eb_tensor *residual = eb_optional_input(node, EB_IN_LINEAR_RESIDUAL);
    if (residual && (!rows_of(residual, &p->residual_row) || !unit_columns(residual))) return EB_NEEDS_DENSE;
    eb_cut cut = cut_product(p->rows.M, p->rows.N, p->rows.K);
    p->row_tiles = cut.row_tiles;
    p->panels = cut.panels_a_tile;
    node->tiles = cut.row_tiles * cut.column_tiles;
    return EB_OK;
}

/* Multiplies columns [n, n + product->columns) of W. `product` has everything but b. `next` is the first column that this thread
 * multiplies after these, or -1. */
typedef void linear_multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next,
                             eb_product *product);

/* Tiles [begin, end) of the product. */
EB_INLINE eb_status run_linear(const eb_node *node, void *const *bases, const eb_rows *rows, int64_t begin, int64_t end,
                               void *scratch, linear_multiply *multiply) {
    const linear_tiling *p = linear_tiling_of(node);
    const float *bias = eb_optional_data(node, EB_IN_LINEAR_BIAS, bases);
    const float *residual = eb_optional_data(node, EB_IN_LINEAR_RESIDUAL, bases);
    float *y = eb_data(eb_output(node), bases);
    const int64_t column_tiles = count_column_tiles(p), width = p->panels * EB_NR;
    const float clamp = clamp_of(node->ints[EB_INT_LINEAR_ACTIVATION]);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t m = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles);
        int64_t m_end = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles + 1);
        int64_t n = tile % column_tiles * width, n_end = eb_min(p->rows.N, n + width);
        const int64_t before = eb_tile_before(tile, begin, p->row_tiles * column_tiles);
        const int64_t after = eb_next_tile(tile, end, p->row_tiles * column_tiles);
        int x_is_near = before >= 0 && before / column_tiles == tile / column_tiles;
        for (; n < n_end; n += EB_NR, x_is_near = 1) {
            eb_product product = {.M = m_end - m,
                                  .columns = eb_min(EB_NR, n_end - n),
                                  .K = rows->K,
                                  .x = rows->x + m * rows->row,
                                  .x_row = rows->row,
                                  .x_k = rows->step,
                                  .x_is_near = x_is_near,
                                  .ldb = EB_NR,
                                  .y = y + m * p->rows.y_row + n,
                                  .ldy = p->rows.y_row,
                                  .alpha = (float)node->reals[EB_REAL_LINEAR_ALPHA],
                                  .bias = bias ? bias + n : NULL,
                                  .residual = residual ? residual + m * p->residual_row + n : NULL,
                                  .ldr = p->residual_row,
                                  .activation = clamp > 0 ? NULL : activations[node->ints[EB_INT_LINEAR_ACTIVATION]],
                                  .clamp = clamp};
            int64_t next = n + EB_NR < n_end ? n + EB_NR : after < 0 ? -1 : after % column_tiles * width;
            multiply(node, bases, scratch, n, next, &product);
        }
    }
    return EB_OK;
}

#endif
