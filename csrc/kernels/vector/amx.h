/* In place of micro.h where the processor multiplies matrices: up to 32 rows of x times one panel, as two by two tiles of 16 x 16
 * sums. A tile of x has 16 rows of 16 groups, one of the panel 16 groups of 16 columns, which lie in memory as tiles read them. The
 * names that the file defines are those of micro.h; they multiply the groups behind the last whole tile. Rows at `x_places` are
 * not for it, and x_k is 1. */
#ifndef EB_AMX_H
#define EB_AMX_H

#include "amx_tiles.h"
#include "epilogue.h"

_Static_assert(EB_VL == TILE && EB_MR == 2 * TILE, "two by two tiles");

/* How many rows tiles are configured for. Tiles belong to the thread, and other libraries use them, too. So each panel configures
 * them, and leaves none behind, which the system would have to save: both take 160 ns, and a micro-tile of 192 groups 440 ns. */
typedef int64_t micro_state;

enum { FINISHED = 4 }; /* rows at once, of whose sums registers have room */

/* The first R rows of sums to y; `rest` goes on behind them. */
EB_INLINE void finish_rows(eb_micro *rest, micro_sum sum[][2], const int R, const int V) {
    micro_finish(rest, sum, R, V);
    rest->x = (const micro_x *)rest->x + R * rest->x_row;
    rest->y += R * rest->ldy;
    if (rest->residual) rest->residual += R * rest->ldr;
}

static void micro_run(micro_state *configured, const eb_micro *t, int64_t rows, int form) {
    micro_sum sum[EB_MR][2];
    const int64_t upper = eb_min(rows, TILE), lower = rows - upper, tiles = t->groups / TILE;
    const int64_t x_stride = t->x_row * GROUP_BYTES, b_stride = t->ldb * GROUP_BYTES;
    const char *x = t->x, *b = t->b;
    if (*configured != rows) configure_tiles(upper, lower);
    *configured = rows;
    _tile_zero(0);
    _tile_zero(1);
    if (lower) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < tiles; k++, x += TILE * GROUP_BYTES, b += TILE * b_stride) {
        _tile_loadd(6, b, b_stride);
        _tile_loadd(4, x, x_stride);
        MULTIPLY_TILES(0, 4, 6);
        _tile_loadd(7, b + EB_VL * GROUP_BYTES, b_stride);
        MULTIPLY_TILES(1, 4, 7);
        if (lower) {
            _tile_loadd(5, x + TILE * x_stride, x_stride);
            MULTIPLY_TILES(2, 5, 6);
            MULTIPLY_TILES(3, 5, 7);
        }
    }
    _tile_stored(0, &sum[0][0], sizeof *sum);
    _tile_stored(1, &sum[0][1], sizeof *sum);
    if (lower) {
        _tile_stored(2, &sum[TILE][0], sizeof *sum);
        _tile_stored(3, &sum[TILE][1], sizeof *sum);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = tiles * TILE; k < t->groups; k++)
            for (int v = 0; v < 2; v++)
                micro_multiply_add(&sum[r][v], micro_broadcast((const micro_x *)t->x + r * t->x_row + k),
                                   micro_load((const micro_b *)t->b + k * t->ldb + v * EB_VL));
    eb_micro rest = *t;
    int64_t r = 0;
    for (; form != ONE_VECTOR && r + FINISHED <= rows; r += FINISHED) finish_rows(&rest, sum + r, FINISHED, 2);
    for (; form != ONE_VECTOR && r < rows; r++) finish_rows(&rest, sum + r, 1, 2);
    for (; r < rows; r++) finish_rows(&rest, sum + r, 1, 1);
}

EB_INLINE void micro_end(micro_state *configured) {
    if (*configured) _tile_release();
}

/* As of micro.h. A tile reads a line of x once, so rows may push each other out of the first-level cache. */
EB_INLINE int64_t most_rows(int64_t x_row) { return (void)x_row, EB_MR; }

#endif
