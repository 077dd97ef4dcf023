/* What the kernels of gated_linear share: y = activation(x @ G + g) * (x @ U + u), where W is G and U one after the other,
 * whatever W is stored as. A kernel says how one panel is multiplied.
 *
 * A panel holds one vector of columns of G and, beside it, the same columns of U, so that one micro-tile has both factors
 * of a result: the product is finished on sums that still lie in the first-level cache, and no gate or up projection
 * ever goes to memory.
 */
#ifndef EB_GATED_LINEAR_H
#define EB_GATED_LINEAR_H

#include "gemm.h"
#include "packings.h"

typedef struct {
    product_rows rows;
    int64_t row_tiles;    /* tiles over rows */
    int64_t column_tiles; /* tiles over columns */
    int64_t panels;       /* panels a tile */
} gated_tiling;
EB_NODE_PLAN(gated_tiling)

/* The axis of the weight that becomes the columns of the result. */
static inline int columns_axis(const eb_node *node) { return node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] ? 0 : 1; }

/* `packing` if `input` is the weight, otherwise NULL. */
static inline const eb_packing *choose_weight_packing(const eb_node *node, int32_t input, const eb_packing *packing,
                                                      int64_t *numbers) {
    const int columns = columns_axis(node);
    return input == EB_IN_GATED_LINEAR_WEIGHT ? choose_packing_of(packing, columns, 1 - columns, numbers) : NULL;
}

/* Rows of a tile: what `cut_product` makes of them at most, rounded up to whole micro-tiles. */
static inline int64_t most_tile_rows(int64_t M, int64_t row_tiles) { return eb_ceil_div(M, row_tiles) + EB_MR; }

/* The working memory for sums, too. */
static inline eb_status plan_gated_linear(eb_node *node) {
    gated_tiling *p = edit_gated_tiling(node);
    eb_status status = plan_product_rows(node, &p->rows);
    if (status != EB_OK) return status;
    eb_cut cut = cut_product(p->rows.M, eb_ceil_div(p->rows.N, EB_VL) * EB_NR, p->rows.K);
    p->row_tiles = cut.row_tiles;
    p->column_tiles = cut.column_tiles;
    p->panels = cut.panels_a_tile;
    node->tiles = cut.row_tiles * cut.column_tiles;
    node->scratch_bytes = cut.row_tiles ? most_tile_rows(p->rows.M, cut.row_tiles) * EB_NR * 4 : 0;
    return EB_OK;
}

/* sums [rows, EB_NR]: gates, then ups; y [rows, columns]. */
static inline void multiply_out(float *sums, int64_t rows, int64_t columns, eb_activation activation, float *y, int64_t ldy) {
    if (activation) activation(sums, rows, EB_VL, EB_NR);
    for (int64_t m = 0; m < rows; m++, sums += EB_NR, y += ldy) {
        vf product = vf_load(sums) * vf_load(sums + EB_VL);
        if (columns == EB_VL)
            vf_store(y, product);
        else
            vf_store_part(y, product, columns);
    }
}

/* Multiplies a panel of columns n of G and of U. `product` has everything but b. `next` is the first column that this thread
 * multiplies after these, or -1. `scratch` is the kernel's own. */
typedef void gated_multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next,
                            eb_product *product);

/* Tiles [begin, end) of the product. */
EB_INLINE eb_status run_gated_linear(const eb_node *node, void *const *bases, const eb_rows *rows, int64_t begin, int64_t end,
                                     void *scratch, gated_multiply *multiply) {
    const gated_tiling *p = gated_tiling_of(node);
    const float *bias = eb_optional_data(node, EB_IN_GATED_LINEAR_BIAS, bases);
    float *y = eb_data(eb_output(node), bases), *sums = scratch;
    void *own = p->row_tiles ? sums + most_tile_rows(p->rows.M, p->row_tiles) * EB_NR : sums;
    const int64_t N = p->rows.N, width = p->panels * EB_VL, column_tiles = p->column_tiles;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t m = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles);
        int64_t m_end = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles + 1);
        int64_t n = tile % column_tiles * width, n_end = eb_min(N, n + width);
        const int64_t before = eb_tile_before(tile, begin, p->row_tiles * column_tiles);
        const int64_t after = eb_next_tile(tile, end, p->row_tiles * column_tiles);
        int x_is_near = before >= 0 && before / column_tiles == tile / column_tiles;
        for (; n < n_end; n += EB_VL, x_is_near = 1) {
            int64_t columns = eb_min(EB_VL, n_end - n);
            float biases[EB_NR] = {0};
            if (bias) {
                memcpy(biases, bias + n, (size_t)columns * 4);
                memcpy(biases + EB_VL, bias + N + n, (size_t)columns * 4);
            }
            eb_product product = {.M = m_end - m,
                                  .columns = EB_NR,
                                  .K = rows->K,
                                  .x = rows->x + m * rows->row,
                                  .x_row = rows->row,
                                  .x_k = rows->step,
                                  .x_is_near = x_is_near,
                                  .ldb = EB_NR,
                                  .y = sums,
                                  .ldy = EB_NR,
                                  .alpha = 1,
                                  .bias = biases};
            int64_t next = n + EB_VL < n_end ? n + EB_VL : after < 0 ? -1 : after % column_tiles * width;
            multiply(node, bases, own, n, next, &product);
            multiply_out(sums, product.M, columns, activations[node->ints[EB_INT_GATED_LINEAR_ACTIVATION]],
                         y + m * p->rows.y_row + n, p->rows.y_row);
        }
    }
    return EB_OK;
}

#endif
