/* The sizes and strides of a matmul: y [.., M, N] = a [.., M, K] @ b [.., K, N]. */
#ifndef EB_MATMUL_H
#define EB_MATMUL_H

#include "../../ops.h"
#include "vec.h"

typedef struct {
    int64_t M, N, K, a_row, a_k, b_k, b_column, y_row;
    eb_loop batch; /* operands: a, b, y */
} matmul_shapes;

static inline matmul_shapes matmul_shapes_of(const eb_node *node) {
    const eb_tensor *a = eb_input(node, EB_IN_MATMUL_A), *b = eb_input(node, EB_IN_MATMUL_B), *y = eb_output(node);
    int a_k = a->rank - 1 - (node->ints[EB_INT_MATMUL_TRANSPOSE_A] != 0), a_row = 2 * a->rank - 3 - a_k;
    int b_column = b->rank - 1 - (node->ints[EB_INT_MATMUL_TRANSPOSE_B] != 0), b_k = 2 * b->rank - 3 - b_column;
    matmul_shapes s = {.M = y->shape[y->rank - 2],
                       .N = y->shape[y->rank - 1],
                       .K = a->shape[a_k],
                       .a_row = a->stride[a_row],
                       .a_k = a->stride[a_k],
                       .b_k = b->stride[b_k],
                       .b_column = b->stride[b_column],
                       .y_row = y->stride[y->rank - 2],
                       .batch = eb_loop_new(3)};
    for (int axis = 0; axis < y->rank - 2; axis++) {
        int64_t strides[3] = {eb_broadcast_stride(a, y->rank, axis), eb_broadcast_stride(b, y->rank, axis),
                              y->stride[axis]};
        eb_loop_axis(&s.batch, y->shape[axis], strides);
    }
    return s;
}

#endif
