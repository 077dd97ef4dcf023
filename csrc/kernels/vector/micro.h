/* The micro-kernel: up to EB_MR rows of x times one panel of b, with all sums in registers over a block of k. The loop does not
 * depend on the types of the elements. A file that includes this header first defines them; gemm.c does so for floats.
 *
 *   micro_x, micro_b    type of 4 bytes: a group of x and of the panel, the elements at one or more k that are multiplied together
 *   micro_factor        vector of EB_VL groups: a factor of the multiply-add
 *   micro_sum           vector of EB_VL numbers of 4 bytes, vf or vu: an accumulator
 *
 *   micro_factor micro_broadcast(const micro_x *group)    one group of x, in all lanes
 *   micro_factor micro_load(const micro_b *groups)        the groups of EB_VL columns of the panel
 *   void micro_multiply_add(micro_sum *sum, micro_factor x, micro_factor b)
 *       adds to *sum: with sums as values, clang 14 allocates other registers in 3 of the float kernels of AVX-512
 *   void micro_finish(const eb_micro *t, micro_sum sum[][2], const int R, const int V)
 *       R rows of V vectors of sums to y: it turns them into floats, if they are none, and calls `finish_sums` (epilogue.h)
 *
 * All are EB_INLINE. A row of the panel holds one group of each column, column after column, and packed panels have EB_NR
 * columns. The caller pads the last group of x and of the panel so that what is behind K adds nothing. */
#ifndef EB_MICRO_H
#define EB_MICRO_H

#include "epilogue.h"

_Static_assert(EB_MR <= 14, "micro_tiles has no more rows");
_Static_assert(sizeof(micro_sum) == EB_VL * 4 && sizeof((micro_sum){0}[0]) == 4, "+ must add sums in lanes of 4 bytes");
_Static_assert(sizeof(micro_x) == 4 && sizeof(micro_factor) == EB_VL * sizeof(micro_b), "a factor must hold a group of each column");

/* R rows, V vectors of columns, U sets of sums. Few rows use several sets, because a sum would wait for its previous addition.
 * Each group fetches P cache lines at `next`. */
EB_INLINE void micro_tile(const eb_micro *t, const int R, const int V, const int U, const int P) {
    micro_sum sum[4][EB_MR][2];
    const micro_x *x[(EB_MR + 2) / 3]; /* a pointer for each three rows: what an address of x86 can reach */
    const micro_b *b = t->b;
    const int64_t x_row = t->x_row, x_k = t->x_k, ldb = t->ldb, next_step = t->next_step;
    const char *next = t->next;
    int64_t k = t->groups;
    fetch_y(t, R, V);
    EB_UNROLL
    for (int g = 0; g < (R + 2) / 3; g++) x[g] = (const micro_x *)t->x + 3 * g * x_row;
    EB_UNROLL
    for (int u = 0; u < U; u++)
        EB_UNROLL
        for (int r = 0; r < R; r++)
            EB_UNROLL
            for (int v = 0; v < V; v++) sum[u][r][v] = (micro_sum){0};
    for (; k >= U; k -= U) {
        EB_UNROLL
        for (int u = 0; u < U; u++) {
            micro_factor column[2];
            EB_UNROLL
            for (int v = 0; v < V; v++) column[v] = micro_load(b + v * EB_VL);
            b += ldb;
            EB_UNROLL
            for (int line = 0; line < P; line++) __builtin_prefetch(next + 64 * line, 0, 2);
            next += next_step;
            EB_UNROLL
            for (int r = 0; r < R; r++) {
                micro_factor value = micro_broadcast(x[r / 3] + r % 3 * x_row);
                EB_UNROLL
                for (int v = 0; v < V; v++) micro_multiply_add(&sum[u][r][v], value, column[v]);
            }
            EB_UNROLL
            for (int g = 0; g < (R + 2) / 3; g++) x[g] += x_k;
        }
    }
    for (; U > 1 && k > 0; k--, b += ldb) {
        EB_UNROLL
        for (int r = 0; r < R; r++) {
            micro_factor value = micro_broadcast(x[r / 3] + r % 3 * x_row);
            EB_UNROLL
            for (int v = 0; v < V; v++)
                micro_multiply_add(&sum[0][r][v], value, micro_load(b + v * EB_VL));
        }
        EB_UNROLL
        for (int g = 0; g < (R + 2) / 3; g++) x[g] += x_k;
    }
    EB_UNROLL
    for (int u = 1; u < U; u++)
        EB_UNROLL
        for (int r = 0; r < R; r++)
            EB_UNROLL
            for (int v = 0; v < V; v++) sum[0][r][v] += sum[u][r][v];
    micro_finish(t, sum[0], R, V);
}

/* Pointers to rows that registers hold beside the panel's. GCC would put more into vector registers, whose moves back take
 * the place of multiply-adds (13 rows of 256 k: 521 cycles beyond the multiply-adds' own, 180 with loads). */
#if defined(__x86_64__)
enum { NEAR_ROWS = 8 };
#else
enum { NEAR_ROWS = EB_MR };
#endif

/* The same for rows at `x_places` and pieces of k at `x_pieces`: each row has a pointer of its own. */
EB_INLINE void micro_places(const eb_micro *t, const int R, const int V, const int P) {
    micro_sum sum[EB_MR][2];
    const micro_b *b = t->b;
    const int64_t groups = t->groups, next_step = t->next_step;
    const char *next = t->next;
    fetch_y(t, R, V);
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < V; v++) sum[r][v] = (micro_sum){0};
    for (int64_t s = 0; s < t->pieces; s++) {
        const micro_x *near[NEAR_ROWS], *volatile far[EB_MR], *piece = (const micro_x *)t->x + t->x_pieces[s];
        EB_UNROLL
        for (int r = 0; r < R; r++) {
            if (r < NEAR_ROWS)
                near[r] = piece + t->x_places[r];
            else
                far[r] = piece + t->x_places[r];
        }
        for (int64_t k = 0; k < groups; k++, b += EB_NR) {
            micro_factor column[2];
            EB_UNROLL
            for (int v = 0; v < V; v++) column[v] = micro_load(b + v * EB_VL);
            EB_UNROLL
            for (int line = 0; line < P; line++) __builtin_prefetch(next + 64 * line, 0, 2);
            next += next_step;
            EB_UNROLL
            for (int r = 0; r < R; r++) {
                micro_factor value = micro_broadcast((r < NEAR_ROWS ? near[r] : far[r]) + k);
                EB_UNROLL
                for (int v = 0; v < V; v++) micro_multiply_add(&sum[r][v], value, column[v]);
            }
        }
    }
    micro_finish(t, sum, R, V);
}

#define EB_MICRO(R, U)                                                                \
    static void micro_##R##_1(const eb_micro *t) { micro_tile(t, R, 1, U, 0); }       \
    static void micro_##R##_2(const eb_micro *t) { micro_tile(t, R, 2, U, 0); }       \
    static void micro_##R##_2_1(const eb_micro *t) { micro_tile(t, R, 2, U, 1); }     \
    static void micro_##R##_2_2(const eb_micro *t) { micro_tile(t, R, 2, U, 2); }     \
    static void micro_places_##R##_1(const eb_micro *t) { micro_places(t, R, 1, 0); } \
    static void micro_places_##R##_2(const eb_micro *t) { micro_places(t, R, 2, 0); } \
    static void micro_places_##R##_2_1(const eb_micro *t) { micro_places(t, R, 2, 1); }
#define EB_ROW(R)                                                                                                  \
    {micro_##R##_1, micro_##R##_2, micro_##R##_2_1, micro_##R##_2_2, micro_places_##R##_1, micro_places_##R##_2, \
     micro_places_##R##_2_1}
EB_MICRO(1, 4)
EB_MICRO(2, 2)
EB_MICRO(3, 1)
EB_MICRO(4, 1)
#if EB_MR > 4
EB_MICRO(5, 1)
EB_MICRO(6, 1)
#endif
#if EB_MR > 6
EB_MICRO(7, 1)
EB_MICRO(8, 1)
EB_MICRO(9, 1)
EB_MICRO(10, 1)
EB_MICRO(11, 1)
EB_MICRO(12, 1)
#endif
#if EB_MR > 12
EB_MICRO(13, 1)
EB_MICRO(14, 1)
#endif

/* micro_tiles[R - 1][form] */
static void (*const micro_tiles[EB_MR][FORMS])(const eb_micro *) = {
    EB_ROW(1),  EB_ROW(2),  EB_ROW(3),  EB_ROW(4),
#if EB_MR > 4
    EB_ROW(5),  EB_ROW(6),
#endif
#if EB_MR > 6
    EB_ROW(7),  EB_ROW(8),  EB_ROW(9),  EB_ROW(10), EB_ROW(11), EB_ROW(12),
#endif
#if EB_MR > 12
    EB_ROW(13), EB_ROW(14),
#endif
};

/* What micro-tiles of a panel leave to the next one: nothing. */
typedef int64_t micro_state;
EB_INLINE void micro_run(micro_state *state, const eb_micro *t, int64_t rows, int form) { (void)state, micro_tiles[rows - 1][form](t); }
EB_INLINE void micro_end(micro_state *state) { (void)state; }

/* Most rows of a micro-tile. Rows that lie a multiple of 4 KiB apart share one set of a first-level cache of 8 ways:
 * more of them than ways would push each other out (128 x 3072 x 768: 82% of the roof with 13 rows, 96% with 8). */
EB_INLINE int64_t most_rows(int64_t x_row) { return x_row % 1024 == 0 ? eb_min(8, EB_MR) : EB_MR; }

#endif
