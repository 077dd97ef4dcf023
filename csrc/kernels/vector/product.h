/* What linear and gated_linear share: how x @ W is cut into tiles of panels, and the walk over them. */
#ifndef EB_PRODUCT_H
#define EB_PRODUCT_H

#include "gemm.h"
#include "packings.h"

typedef struct {
    product_rows rows;
    int64_t residual_row; /* from row to row of linear's residual */
    int64_t row_tiles;    /* tiles over rows */
    int64_t panels;       /* panels a tile */
} product_tiling;
EB_NODE_PLAN(product_tiling)

/* The axis of the weight that becomes the columns of the result. */
static inline int columns_axis(const eb_node *node) { return node->ints[EB_INT_PRODUCT_TRANSPOSE_WEIGHT] ? 0 : 1; }

/* `packing` if `input` is the weight, otherwise NULL. */
static inline const eb_packing *choose_weight_packing(const eb_node *node, int32_t input, const eb_packing *packing,
                                                      int64_t *numbers) {
    const int columns = columns_axis(node);
    return input == EB_IN_PRODUCT_WEIGHT ? choose_packing_of(packing, columns, 1 - columns, numbers) : NULL;
}

/* Tiles for panels of `width` columns of the result; all but the working memory. */
static inline eb_status plan_product(eb_node *node, int64_t width) {
    product_tiling *p = edit_product_tiling(node);
    eb_status status = plan_product_rows(node, &p->rows);
    if (status != EB_OK) return status;
    eb_cut cut = cut_product(p->rows.M, eb_ceil_div(p->rows.N, width) * EB_NR, p->rows.K);
    p->row_tiles = cut.row_tiles;
    p->panels = cut.panels_a_tile;
    node->tiles = cut.row_tiles * cut.column_tiles;
    return EB_OK;
}

/* Multiplies the panel of W whose first column is n. `product` has everything but b. `next` is the first column that this
 * thread multiplies after these, or -1. */
typedef void product_multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next,
                              eb_product *product);

/* What the panels of one run have in common. */
typedef struct {
    const eb_node *node;
    void *const *bases;
    void *scratch;
    product_multiply *multiply;
} product_run;

/* Computes columns [n, n + columns) of y from row m on; `product` describes these rows of x, and nothing else yet. `next` is
 * as for `product_multiply`. */
typedef void product_panel(const product_run *run, int64_t m, int64_t n, int64_t columns, int64_t next, eb_product *product);

/* Tiles [begin, end), in panels of `width` columns of the result. */
EB_INLINE eb_status run_panels(const product_run *run, const eb_rows *rows, int64_t begin, int64_t end, int64_t width,
                               product_panel *panel) {
    const product_tiling *p = product_tiling_of(run->node);
    const int64_t N = p->rows.N, tile_width = p->panels * width;
    const int64_t column_tiles = eb_ceil_div(eb_ceil_div(N, width), p->panels);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t m = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles);
        int64_t m_end = row_tile_begin(p->rows.M, p->row_tiles, tile / column_tiles + 1);
        int64_t n = tile % column_tiles * tile_width, n_end = eb_min(N, n + tile_width);
        const int64_t before = eb_tile_before(tile, begin, p->row_tiles * column_tiles);
        const int64_t after = eb_next_tile(tile, end, p->row_tiles * column_tiles);
        int x_is_near = before >= 0 && before / column_tiles == tile / column_tiles;
        for (; n < n_end; n += width, x_is_near = 1) {
            eb_product product = {.M = m_end - m,
                                  .K = rows->K,
                                  .x = rows->x + m * rows->row,
                                  .x_row = rows->row,
                                  .x_k = rows->step,
                                  .x_is_near = x_is_near,
                                  .ldb = EB_NR};
            int64_t next = n + width < n_end ? n + width : after < 0 ? -1 : after % column_tiles * tile_width;
            panel(run, m, n, eb_min(width, n_end - n), next, &product);
        }
    }
    return EB_OK;
}

#endif
