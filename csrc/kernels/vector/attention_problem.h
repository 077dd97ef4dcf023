/* What the attention kernels read off a node: sizes, strides, the walk over heads. */
#ifndef EB_ATTENTION_PROBLEM_H
#define EB_ATTENTION_PROBLEM_H

#include "../../iterate.h"
#include "../../ops.h"
#include "math.h"

#define LOG2_E 1.44269504f

typedef struct {
    int64_t S, T, D, E, share;    /* share: query heads a key head */
    int64_t q_row, q_column, k_row, k_column, v_row, v_column, y_row;
    int64_t mask_row, mask_column;
    int mask_dtype, causal, zero; /* zero: what a row with nothing to attend to becomes, else NaN */
    float scale;
    eb_loop heads;  /* query heads: q, mask, y */
    eb_loop groups; /* the same heads with what they share: k, v */
} problem;

static problem describe(const eb_node *node) {
    const eb_tensor *q = eb_input(node, EB_IN_ATTENTION_QUERY), *k = eb_input(node, EB_IN_ATTENTION_KEY);
    const eb_tensor *v = eb_input(node, EB_IN_ATTENTION_VALUE), *y = eb_output(node);
    const eb_tensor *mask = eb_optional_input(node, EB_IN_ATTENTION_MASK);
    int r = q->rank, swapped = node->ints[EB_INT_ATTENTION_TRANSPOSE_OUTPUT] != 0;
    problem p = {.S = q->shape[r - 2], .T = k->shape[r - 2], .D = q->shape[r - 1], .E = v->shape[r - 1], .share = 1};
    p.q_row = q->stride[r - 2], p.q_column = q->stride[r - 1];
    p.k_row = k->stride[r - 2], p.k_column = k->stride[r - 1];
    p.v_row = v->stride[r - 2], p.v_column = v->stride[r - 1];
    p.y_row = y->stride[swapped ? r - 3 : r - 2];
    p.mask_dtype = mask ? mask->dtype : -1;
    p.mask_row = mask ? eb_broadcast_stride(mask, r, r - 2) : 0;
    p.mask_column = mask ? eb_broadcast_stride(mask, r, r - 1) : 0;
    p.causal = node->ints[EB_INT_ATTENTION_CAUSAL] != 0;
    /* No keys at all is an empty sum, which is 0 under either rule. */
    p.zero = node->ints[EB_INT_ATTENTION_MASKED_ROWS] == EB_ATTENTION_MASKED_ROWS_ZERO || p.T == 0;
    p.scale = (float)node->reals[EB_REAL_ATTENTION_SCALE];
    p.heads = eb_loop_new(3);
    p.groups = eb_loop_new(2);
    for (int axis = 0; axis < r - 2; axis++) {
        int is_head = axis == r - 3;
        int64_t strides[3] = {q->stride[axis], mask ? eb_broadcast_stride(mask, r, axis) : 0,
                              y->stride[is_head && swapped ? r - 2 : axis]};
        int64_t shared[2] = {k->stride[axis], v->stride[axis]};
        if (is_head && k->shape[axis]) p.share = eb_max(1, q->shape[axis] / k->shape[axis]); /* 0 without query heads */
        eb_loop_axis(&p.heads, q->shape[axis], strides);
        eb_loop_axis(&p.groups, k->shape[axis], shared);
    }
    return p;
}

/* A mask of floats or bools, and rows of the result without gaps. */
static int fits_layouts(const eb_node *node) {
    const eb_tensor *y = eb_output(node);
    int last = y->rank - 1;
    if (y->stride[last] != 1 && y->shape[last] > 1) return 0;
    const eb_tensor *mask = eb_optional_input(node, EB_IN_ATTENTION_MASK);
    return !mask || mask->dtype == EB_F32 || mask->dtype == EB_BOOL;
}

/* Whether the query and the result are floats, and keys and values have type `kept`. */
static inline int has_types(const eb_node *node, int kept) {
    const int key = eb_input(node, EB_IN_ATTENTION_KEY)->dtype, value = eb_input(node, EB_IN_ATTENTION_VALUE)->dtype;
    const int floats = eb_input(node, EB_IN_ATTENTION_QUERY)->dtype == EB_F32 && eb_output(node)->dtype == EB_F32;
    return floats && key == kept && value == kept;
}

/* e^(score - base), base being the largest score. To base 2 from the difference on and not before: a mask may hold the
 * least float, which is finite, and times log2 e is not. */
EB_INLINE vf softmax_weight(vf score, vf base) { return vf_exp2_nonpositive((score - base) * LOG2_E); }

#endif
