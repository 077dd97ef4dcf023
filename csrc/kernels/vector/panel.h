/* One panel times the rows of x: blocks of k, and micro-tiles in them. Does not depend on the types of the elements: a file
 * defines them for micro.h or amx.h, includes that header, and then this one, before which it defines the enumerator MICRO_DEPTH:
 * the most groups of k in a block. Groups of k take 4 bytes, which the strides of eb_product count, so pointers move over them as
 * over floats. */
#ifndef EB_PANEL_H
#define EB_PANEL_H

#include "gemm.h"

/* A micro-tile at the right edge, or of rows of y that lie apart: through a small buffer, so that nothing beyond `columns`
 * is touched. y_places: of the rows, counted from the first one's; or NULL. */
static void micro_edge(micro_state *state, eb_micro t, int form, int64_t rows, int64_t columns, const int64_t *y_places) {
    float sums[EB_MR * EB_NR] = {0}, bias[EB_NR] = {0};
    float *y = t.y;
    int64_t at[EB_MR];
    for (int64_t r = 0; r < rows; r++) at[r] = y_places ? y_places[r] - y_places[0] : r * t.ldy;
    if (t.bias) memcpy(bias, t.bias, (size_t)columns * 4);
    for (int64_t r = 0; r < rows && t.residual; r++)
        memcpy(sums + r * EB_NR, t.residual + (y_places ? at[r] : r * t.ldr), (size_t)columns * 4);
    t.bias = bias;
    t.residual = sums;
    t.y = sums;
    t.ldr = EB_NR;
    t.ldy = EB_NR;
    micro_run(state, &t, rows, form);
    for (int64_t r = 0; r < rows; r++) memcpy(y + at[r], sums + r * EB_NR, (size_t)columns * 4);
}

/* Packed panels lie one behind the other, so what comes next is known. Where several micro-tiles reread a block of k from
 * the cache, each fetches its share of the next block, which the first to read it would wait for (32 x 1024 x 4096: 106
 * to 113 GFLOP/s of 117; with ten micro-tiles, where a core has 240 GFLOP/s for its 36 GB/s, whole models take 2 to 4% less).
 * A single one of many rows is too slow for the hardware to fetch far enough ahead of it (8 x 8192 x 8192: 88 to 95
 * GFLOP/s). Many micro-tiles of short rows that lie one behind the other fetch the rows of the next one instead (3136 x 256 x
 * 128: 80 to 86% of the roof), but only for the first panel: for later ones x is in the second-level cache. Four rows and less
 * are left to the hardware, which does better (92 against 77 GB/s from the second-level cache). */
enum { BYTES_AHEAD = 16384, FEW_ROWS = 4, MANY_TILES = 8, SHORT_ROW = 512 };
static int form_of(const eb_product *p, int64_t heights) {
    int places = p->x_places ? PLACES_ONE : 0;
    if (p->columns <= EB_VL) return ONE_VECTOR + places;
    if (p->ldb != EB_NR || p->M <= FEW_ROWS || (places && heights > MANY_TILES)) return TWO_VECTORS + places;
    if (heights > 1) return FETCH_ONE + places;
    return places ? PLACES_TWO : FETCH_TWO;
}

/* A block of k: some whole pieces, or a part of one. */
typedef struct {
    int64_t piece, pieces, k, K, depth; /* depth: of b, in front of the block */
} eb_block;

/* Parts of a long piece, or as many short ones as go into half as much again, all blocks alike. */
static int64_t count_blocks(const eb_product *p, int64_t pieces) {
    if (pieces == 1 || p->K > MICRO_DEPTH) return pieces * eb_max(1, eb_ceil_div(p->K, MICRO_DEPTH));
    int64_t blocks = 1;
    while (pieces % blocks || pieces / blocks * p->K > MICRO_DEPTH + MICRO_DEPTH / 2) blocks++;
    return blocks;
}

static inline eb_block block_of(const eb_product *p, int64_t pieces, int64_t blocks, int64_t i) {
    if (blocks < pieces) return (eb_block){i * (pieces / blocks), pieces / blocks, 0, p->K, i * (pieces / blocks) * p->K};
    int64_t parts = blocks / pieces, k = eb_piece(p->K, parts, i % parts);
    return (eb_block){i / parts, 1, k, eb_piece(p->K, parts, i % parts + 1) - k, i / parts * p->K + k};
}

/* Blocks of k outside, micro-tiles of nearly equal height inside: 16 rows are 8 + 8, not 14 + 2. The first block of k
 * brings bias and residual, later ones add to what lies in y. */
static void multiply_blocks(const eb_product *p) {
    int64_t pieces = p->x_places ? p->pieces : 1, blocks = count_blocks(p, pieces);
    int64_t heights = eb_ceil_div(p->M, most_rows(p->x_row)), share = eb_ceil_div(EB_NR * 4, heights);
    int form = form_of(p, heights);
    const int is_dense = !p->x_places && p->x_k == 1 && p->x_row == p->K;
    const int fetches_x = heights > MANY_TILES && is_dense && p->K <= SHORT_ROW && !p->x_is_near;
    micro_state state = 0;
    for (int64_t d = 0; d < blocks; d++) {
        eb_block block = block_of(p, pieces, blocks, d);
        int64_t depth = block.pieces * block.K;
        const float *next = d == blocks - 1 && p->next ? p->next : p->b + (block.depth + depth) * EB_NR;
        for (int64_t h = 0; h < heights; h++) {
            int64_t m = eb_piece(p->M, heights, h), rows = eb_piece(p->M, heights, h + 1) - m;
            const int64_t *places = p->y_places ? p->y_places + m : NULL;
            const int64_t y_at = places ? places[0] : m * p->ldy;
            const int is_apart = places && places[rows - 1] - y_at != (rows - 1) * p->ldy;
            float *y = p->y + y_at;
            eb_micro t = {.groups = block.K,
                          .x = p->x + (p->x_places ? 0 : m * p->x_row) + block.k * p->x_k,
                          .x_row = p->x_row,
                          .x_k = p->x_k,
                          .b = p->b + block.depth * p->ldb,
                          .ldb = p->ldb,
                          .y = y,
                          .ldy = p->ldy,
                          .alpha = p->alpha,
                          .bias = d ? NULL : p->bias,
                          .residual = d ? y : p->residual ? p->residual + (places ? y_at : m * p->ldr) : NULL,
                          .ldr = d ? p->ldy : p->ldr,
                          .next = (const char *)next + h * share * depth,
                          .next_step = share,
                          .x_places = p->x_places ? p->x_places + m : NULL,
                          .x_pieces = p->x_places ? p->x_pieces + block.piece : NULL,
                          .pieces = block.pieces,
                          .scales = p->scales,
                          .clamp = d == blocks - 1 ? p->clamp : 0};
            if (form == FETCH_TWO) t.next = (const char *)t.b + BYTES_AHEAD;
            if (fetches_x) {
                t.next = (const char *)((const float *)t.x + rows * p->x_row);
                t.next_step = rows * 4;
            }
            if (is_apart || p->columns % EB_VL)
                micro_edge(&state, t, form, rows, p->columns, is_apart ? places : NULL);
            else
                micro_run(&state, &t, rows, form);
            if (!p->activation || d < blocks - 1) continue;
            for (int64_t r = 0; r < rows && is_apart; r++) p->activation(y + places[r] - y_at, 1, p->columns, p->ldy);
            if (!is_apart) p->activation(y, rows, p->columns, p->ldy);
        }
    }
    micro_end(&state);
}

#endif
