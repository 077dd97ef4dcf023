/* One micro-tile: what the loop over k (micro.h) and the epilogue (epilogue.h) read. The struct does not depend on the types
 * of the elements.
 *
 * The order of the fields keeps the machine code of the float32 kernels. With an epilogue in a struct of its own, gcc 12 for
 * aarch64 computes a second pointer (25 instructions more in a micro-tile of 12 x 8); with its fields behind those of the
 * loop, clang 14 allocates other registers in 20 of the 98 micro-kernels of AVX-512. */
#ifndef EB_TILE_H
#define EB_TILE_H

#include "vec.h"

/* y [rows, columns] = clamp(alpha * x @ b + bias + residual). Strides count elements. y may be the residual. */
typedef struct {
    /* read by the loop */
    int64_t groups; /* of k; with x_places: in a piece */
    const void *x;
    int64_t x_row, x_k; /* from row to row, from group to group */
    const void *b;
    int64_t ldb; /* from group to group */
    /* read by the epilogue */
    float *y;
    int64_t ldy;
    float alpha;
    const float *bias, *residual; /* or NULL */
    int64_t ldr;
    /* read by the loop */
    const char *next;  /* what the following micro-tiles read: fetched from here on */
    int64_t next_step; /* bytes to go on for each group */
    const int64_t *x_places, *x_pieces; /* of `micro_places`, which ignores x_row, x_k and ldb */
    int64_t pieces;
    /* read by the epilogue */
    float clamp; /* results are limited to [0, clamp]; INFINITY: ReLU; 0: no limit */
    const float *scales; /* as in eb_product */
} eb_micro;

/* Which columns a micro-tile computes, and what it fetches. Rows at `x_places` have forms of their own. */
enum { ONE_VECTOR, TWO_VECTORS, FETCH_ONE, FETCH_TWO, PLACES_ONE, PLACES_TWO, PLACES_FETCH, FORMS };

#endif
