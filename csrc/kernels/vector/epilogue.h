/* The end of a micro-tile: from float sums in registers to y. It does not know which product (micro.h) made the sums. */
#ifndef EB_EPILOGUE_H
#define EB_EPILOGUE_H

#include "activation.h"
#include "tile.h"

/* Asks for the lines of y that the sums will go to: a store that misses the first-level cache waits for its line, and
 * holds up those behind it. R rows, V vectors of columns. */
EB_INLINE void fetch_y(const eb_micro *t, const int R, const int V) {
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int n = 0; n < V * EB_VL; n += 16) __builtin_prefetch(t->y + r * t->ldy + n, 1, 3);
}

/* From the sums to y. Skips an alpha of 1: a multiplication would compete with the multiply-adds of the next micro-tile;
 * additions use other units. */
EB_INLINE void finish_sums(const eb_micro *t, vf sum[][2], const int R, const int V) {
    if (t->alpha != 1) {
        EB_UNROLL
        for (int r = 0; r < R; r++)
            EB_UNROLL
            for (int v = 0; v < V; v++) sum[r][v] *= t->alpha;
    }
    EB_UNROLL
    for (int v = 0; v < V; v++) {
        vf bias = t->bias ? vf_load(t->bias + v * EB_VL) : vf_set(0);
        EB_UNROLL
        for (int r = 0; r < R; r++) sum[r][v] += bias;
    }
    if (t->residual) {
        EB_UNROLL
        for (int r = 0; r < R; r++)
            EB_UNROLL
            for (int v = 0; v < V; v++) sum[r][v] += vf_load(t->residual + r * t->ldr + v * EB_VL);
    }
    if (t->clamp > 0) {
        EB_UNROLL
        for (int r = 0; r < R; r++)
            EB_UNROLL
            for (int v = 0; v < V; v++) sum[r][v] = vf_relu(sum[r][v]);
    }
    if (t->clamp > 0 && t->clamp < INFINITY) {
        EB_UNROLL
        for (int r = 0; r < R; r++)
            EB_UNROLL
            for (int v = 0; v < V; v++) sum[r][v] = vf_min(vf_set(t->clamp), sum[r][v]); /* NaN stays */
    }
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < V; v++) vf_store(t->y + r * t->ldy + v * EB_VL, sum[r][v]);
}

#endif
