/* Advanced indexing, read by index and written by index_put: the indices broadcast to a common block, which stands at
 * the first indexed axis if these are adjacent, else in front. */
#ifndef EB_INDEXED_H
#define EB_INDEXED_H

#include "element.h"

typedef struct {
    int first_input;              /* of the node: the first index */
    int64_t axes;                 /* bit mask of the indexed axes */
    int block, front;             /* the block's rank, and the axis of the result where it begins */
    int rank;                     /* of the result */
    int64_t shape[2 * EB_MAX_RANK]; /* of the result */
} eb_indexed;

static inline eb_indexed eb_indexed_axes(const eb_node *node, int first_input, int64_t axes) {
    const eb_tensor *x = eb_input(node, 0); /* of both ops */
    int indices = node->n_inputs - first_input, first = __builtin_ctzll((uint64_t)axes);
    int adjacent = axes >> first == ((int64_t)1 << indices) - 1;
    eb_indexed found = {.first_input = first_input, .axes = axes, .front = adjacent ? first : 0};
    for (int i = first_input; i < node->n_inputs; i++)
        if (eb_input(node, i)->rank > found.block) found.block = eb_input(node, i)->rank;
    for (int axis = 0, kept = 0; axis < x->rank; axis++)
        if (!(axes >> axis & 1)) found.shape[kept < found.front ? kept : kept + found.block] = x->shape[axis], kept++;
    for (int axis = 0; axis < found.block; axis++) {
        int64_t size = 1;
        for (int i = first_input; i < node->n_inputs; i++) {
            const eb_tensor *t = eb_input(node, i);
            int own = axis - (found.block - t->rank);
            if (own >= 0 && t->shape[own] != 1) size = t->shape[own];
        }
        found.shape[found.front + axis] = size;
    }
    found.rank = x->rank - indices + found.block;
    return found;
}

/* Where, by the strides of `target` (of the shape of input 0), the element lies that stands at `out` of the result; -1
 * where an index is out of range. */
static inline int64_t eb_indexed_offset(const eb_indexed *indexed, const eb_node *node, void *const *bases,
                                        const eb_tensor *target, const int64_t *out) {
    int64_t offset = 0;
    for (int axis = 0, input = indexed->first_input, kept = 0; axis < target->rank; axis++) {
        if (!(indexed->axes >> axis & 1)) {
            offset += out[kept < indexed->front ? kept : kept + indexed->block] * target->stride[axis];
            kept++;
            continue;
        }
        const eb_tensor *t = eb_input(node, input++);
        int64_t at = 0;
        for (int i = 0; i < indexed->block; i++)
            at += out[indexed->front + i] * eb_broadcast_stride(t, indexed->block, i);
        int64_t position = eb_load_int(t->dtype, eb_data(t, bases), at);
        if (position < 0) position += target->shape[axis];
        if (position < 0 || position >= target->shape[axis]) return -1;
        offset += position * target->stride[axis];
    }
    return offset;
}

#endif
