/* How many threads share a node: a hint for kernels that fetch ahead of themselves. */
#ifndef EB_SHARING_H
#define EB_SHARING_H

#include <stdint.h>

/* Threads that may claim tiles of the node that this thread runs. They claim tiles in turn, so the tile that this thread
 * claims next is probably so many further on. 1 outside of the pool. */
extern _Thread_local int32_t eb_sharing_threads;

/* The tile that this thread probably runs after `tile`, which is one of a chunk that ends before `end`. It may lie beyond
 * the tiles of the node. */
static inline int64_t eb_next_tile(int64_t tile, int64_t end) {
    return tile + 1 < end ? tile + 1 : tile + eb_sharing_threads;
}

#endif
