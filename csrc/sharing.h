/* Which tiles a thread runs before and after one: hints for kernels that fetch ahead of themselves. */
#ifndef EB_SHARING_H
#define EB_SHARING_H

#include <stdint.h>

/* The distance to the tile that this thread probably claims next: of two threads 1 (the caller) or -1 (the worker), of more
 * threads their number. 1 outside of the pool. */
extern _Thread_local int32_t eb_tile_step;

/* The tile that this thread probably runs after `tile`, which is one of a chunk that ends before `end`, of a node with
 * `tiles` tiles; -1 if that is none of them. */
static inline int64_t eb_next_tile(int64_t tile, int64_t end, int64_t tiles) {
    int64_t next = tile + 1 < end ? tile + 1 : tile + eb_tile_step;
    return next < tiles ? next : -1;
}

/* The tile that this thread probably ran before `tile`; -1 if the node has no such tile. `begin` is the first tile of the chunk of
 * `tile`. */
static inline int64_t eb_tile_before(int64_t tile, int64_t begin, int64_t tiles) {
    int64_t before = tile > begin ? tile - 1 : tile - eb_tile_step;
    return before >= 0 && before < tiles ? before : -1;
}

#endif
