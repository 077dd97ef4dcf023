/* matmul: y = alpha * a @ b over broadcast batch axes, either operand transposed or with any strides. */
#include "gemm.h"
#include "matmul.h"

typedef struct {
    int64_t row_tiles;    /* tiles over rows */
    int64_t column_tiles; /* tiles over panels */
    int64_t panels;       /* panels a tile */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node) {
    const eb_tensor *y = eb_output(node);
    if (y->stride[y->rank - 1] != 1 && y->shape[y->rank - 1] > 1) return EB_NOT_APPLICABLE;
    matmul_shapes s = matmul_shapes_of(node);
    eb_cut cut = cut_product(s.M, s.N, s.K);
    edit_tiling(node)->row_tiles = cut.row_tiles;
    edit_tiling(node)->column_tiles = cut.column_tiles;
    edit_tiling(node)->panels = cut.panels_a_tile;
    node->tiles = s.batch.count * cut.row_tiles * cut.column_tiles;
    node->scratch_bytes = s.K * EB_NR * 4;
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    matmul_shapes s = matmul_shapes_of(node);
    const float *a = eb_data(eb_input(node, EB_IN_MATMUL_A), bases);
    const float *b = eb_data(eb_input(node, EB_IN_MATMUL_B), bases);
    float *y = eb_data(eb_output(node), bases);
    int64_t row_tiles = tiling_of(node)->row_tiles, column_tiles = tiling_of(node)->column_tiles;
    int64_t width = tiling_of(node)->panels * EB_NR;
    for (int64_t tile = begin; tile < end; tile++) {
        eb_cursor at;
        eb_cursor_seek(&s.batch, &at, tile / (row_tiles * column_tiles));
        int64_t row_tile = tile / column_tiles % row_tiles, n = tile % column_tiles * width, n_end = eb_min(s.N, n + width);
        int64_t m = row_tile_begin(s.M, row_tiles, row_tile), m_end = row_tile_begin(s.M, row_tiles, row_tile + 1);
        for (; n < n_end; n += EB_NR) {
            eb_product product = {.M = m_end - m,
                                  .columns = eb_min(EB_NR, n_end - n),
                                  .K = s.K,
                                  .x = a + at.offset[0] + m * s.a_row,
                                  .x_row = s.a_row,
                                  .x_k = s.a_k,
                                  .y = y + at.offset[2] + m * s.y_row + n,
                                  .ldy = s.y_row,
                                  .alpha = (float)node->reals[EB_REAL_MATMUL_ALPHA]};
            product.b = panel_of(b + at.offset[1] + n * s.b_column, s.b_k, s.b_column, s.K, product.columns, product.M,
                                 scratch, &product.ldb);
            multiply_panel(&product);
        }
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(matmul, packed) = {plan, run};
