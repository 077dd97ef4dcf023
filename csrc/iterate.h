/* Loops over operands of any strides. Every kernel that walks elements uses these; no kernel walks strides by hand.
 *
 * A loop is a list of axes with one stride an operand. Axes of size 1 vanish, neighbours merge where every operand
 * permits it, so that a dense operation is one long run.
 */
#ifndef EB_ITERATE_H
#define EB_ITERATE_H

#include "checked.h"
#include "encodings.h"
#include "engine.h"

enum { EB_LOOP_OPERANDS = 7 }; /* an output and MAX_INPUTS of engine/targets/cpu/passes/fuse_pointwise.py */

typedef struct {
    int operands, rank; /* rank >= 1; the last axis is the inner run */
    int64_t count;      /* elements in all */
    int64_t shape[EB_MAX_RANK];
    int64_t stride[EB_LOOP_OPERANDS][EB_MAX_RANK];
} eb_loop;

typedef struct {
    int64_t index[EB_MAX_RANK];
    int64_t offset[EB_LOOP_OPERANDS]; /* elements from each operand's start */
} eb_cursor;

static inline eb_loop eb_loop_new(int operands) {
    eb_loop loop = {.operands = operands, .rank = 1, .count = 1, .shape = {1}};
    return loop;
}

/* Add an axis inside of those present. */
static inline void eb_loop_axis(eb_loop *loop, int64_t size, const int64_t *strides) {
    loop->count *= size;
    if (size == 1) return;
    int last = loop->rank - 1, merge = 1, fresh = loop->shape[last] == 1;
    for (int o = 0; o < loop->operands; o++) merge &= loop->stride[o][last] == size * strides[o];
    if (!merge && !fresh) last = loop->rank++;
    loop->shape[last] = merge && !fresh ? loop->shape[last] * size : size;
    for (int o = 0; o < loop->operands; o++) loop->stride[o][last] = strides[o];
}

/* Stride of `t` along `axis` of a result of rank `rank`, by NumPy's rule of broadcasting. */
static inline int64_t eb_broadcast_stride(const eb_tensor *t, int rank, int axis) {
    int own = axis - (rank - t->rank);
    return own < 0 || t->shape[own] == 1 ? 0 : t->stride[own];
}

/* The loop over `shape_of`'s elements in row-major order, with `operands` broadcast to it. */
static inline eb_loop eb_loop_broadcast(const eb_tensor *shape_of, int operands, const eb_tensor *const *tensors) {
    eb_loop loop = eb_loop_new(operands);
    for (int axis = 0; axis < shape_of->rank; axis++) {
        int64_t strides[EB_LOOP_OPERANDS];
        for (int o = 0; o < operands; o++) strides[o] = eb_broadcast_stride(tensors[o], shape_of->rank, axis);
        eb_loop_axis(&loop, shape_of->shape[axis], strides);
    }
    return loop;
}

/* The loop over axes [first, last) of one tensor. */
static inline eb_loop eb_loop_axes(const eb_tensor *t, int first, int last) {
    eb_loop loop = eb_loop_new(1);
    for (int axis = first; axis < last; axis++) eb_loop_axis(&loop, t->shape[axis], &t->stride[axis]);
    return loop;
}

/* Stand on element `flat` of the loop's row-major order. */
static inline void eb_cursor_seek(const eb_loop *loop, eb_cursor *cursor, int64_t flat) {
    for (int o = 0; o < loop->operands; o++) cursor->offset[o] = 0;
    for (int axis = loop->rank - 1; axis >= 0; axis--) {
        int64_t size = loop->shape[axis] ? loop->shape[axis] : 1;
        cursor->index[axis] = axis ? flat % size : flat;
        flat /= size;
        for (int o = 0; o < loop->operands; o++) cursor->offset[o] += cursor->index[axis] * loop->stride[o][axis];
    }
}

/* Elements from the cursor to the end of its inner run, at most `limit`. */
static inline int64_t eb_cursor_run(const eb_loop *loop, const eb_cursor *cursor, int64_t limit) {
    int64_t left = loop->shape[loop->rank - 1] - cursor->index[loop->rank - 1];
    return left < limit ? left : limit;
}

/* Go `count` elements on, where `count` came from eb_cursor_run. */
static inline void eb_cursor_advance(const eb_loop *loop, eb_cursor *cursor, int64_t count) {
    int axis = loop->rank - 1;
    cursor->index[axis] += count;
    for (int o = 0; o < loop->operands; o++) cursor->offset[o] += count * loop->stride[o][axis];
    while (axis > 0 && cursor->index[axis] == loop->shape[axis]) {
        cursor->index[axis] = 0;
        cursor->index[axis - 1]++;
        for (int o = 0; o < loop->operands; o++)
            cursor->offset[o] += loop->stride[o][axis - 1] - loop->shape[axis] * loop->stride[o][axis];
        axis--;
    }
}

/* Offset of element `flat` for operand 0. */
static inline int64_t eb_loop_offset(const eb_loop *loop, int64_t flat) {
    eb_cursor cursor;
    eb_cursor_seek(loop, &cursor, flat);
    return cursor.offset[0];
}

static inline int64_t eb_element_size(int32_t dtype) {
    static const int64_t sizes[] = EB_ELEMENT_SIZES;
    return sizes[dtype];
}

static inline int64_t eb_size(const eb_tensor *t) {
    int64_t size = 1;
    for (int axis = 0; axis < t->rank; axis++) size *= t->shape[axis];
    return size;
}

/* Row-major without gaps from axis `first` on. */
static inline int eb_is_dense_from(const eb_tensor *t, int first) {
    int64_t step = 1;
    for (int axis = t->rank - 1; axis >= first; axis--) {
        if (t->shape[axis] != 1 && t->stride[axis] != step) return 0;
        step *= t->shape[axis];
    }
    return 1;
}

static inline int eb_is_dense(const eb_tensor *t) { return eb_size(t) == 0 || eb_is_dense_from(t, 0); }

/* The range [begin, end) of the `count` positions first, first + step, ... that lie in [0, size). step >= 1. */
static inline void eb_clip(int64_t first, int64_t step, int64_t size, int64_t count, int64_t *begin, int64_t *end) {
    *begin = first < 0 ? eb_min(count, eb_ceil_div(-first, step)) : 0;
    *end = first < size ? eb_max(*begin, eb_min(count, eb_ceil_div(size - first, step))) : *begin;
}

/* Piece `i` of `pieces` nearly equal pieces of `count` starts here; piece `pieces` would start at `count`. */
static inline int64_t eb_piece(int64_t count, int64_t pieces, int64_t i) {
    return count / pieces * i + eb_min(i, count % pieces);
}

static inline const eb_tensor *eb_input(const eb_node *node, int i) { return &node->operands[i]; }
static inline const eb_tensor *eb_output(const eb_node *node) { return &node->operands[node->n_inputs]; }
static inline int eb_is_present(const eb_node *node, int i) {
    return i < node->n_inputs && node->operands[i].dtype >= 0;
}

/* An input that a node may lack, and its elements; NULL where it is absent. */
static inline const eb_tensor *eb_optional_input(const eb_node *node, int i) {
    return eb_is_present(node, i) ? eb_input(node, i) : NULL;
}
static inline void *eb_optional_data(const eb_node *node, int i, void *const *bases) {
    return eb_is_present(node, i) ? eb_data(eb_input(node, i), bases) : NULL;
}

/* Bytes of all operands of a node, counting an operand that repeats elements as if it were dense. */
static inline int64_t eb_operand_bytes(const eb_node *node) {
    int64_t bytes = 0;
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++) {
        const eb_tensor *t = &node->operands[i];
        if (t->dtype >= 0) bytes = eb_add(bytes, eb_size(t) * eb_element_size(t->dtype));
    }
    return bytes;
}

#endif
