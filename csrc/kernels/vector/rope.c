/* rope: each row of x is turned, its first half against its second, by the angles whose cosines and sines are given. A
 * pair of vectors, one of each half, makes both results that depend on it, so x is read once. Rows lie anywhere: heads
 * are parts of a product's row.
 */
#include "../../ops.h"
#include "vec.h"

enum { TILE_ELEMENTS = 16384 };
typedef struct {
    int64_t rows; /* rows a tile */
} tiling;
EB_NODE_PLAN(tiling)
enum { Y, X, COSINE, SINE, OPERANDS }; /* of the loop: the output, then the inputs */

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ROPE_X), *y = eb_output(node);
    int last = x->rank - 1;
    int64_t D = x->shape[last];
    if (!eb_is_dense(y)) return EB_NOT_APPLICABLE;
    for (int i = 0; i < 3; i++) {
        const eb_tensor *t = eb_input(node, i);
        if (D > 1 && t->stride[t->rank - 1] != 1) return EB_NEEDS_DENSE;
    }
    edit_tiling(node)->rows = eb_max(1, TILE_ELEMENTS / eb_max(1, D));
    node->tiles = D ? eb_ceil_div(eb_size(x) / D, tiling_of(node)->rows) : 0;
    return EB_OK;
}

/* The loop over rows of y, x, cosines and sines. */
static eb_loop loop_rows(const eb_node *node) {
    const eb_tensor *y = eb_output(node);
    eb_loop loop = eb_loop_new(OPERANDS);
    for (int axis = 0; axis < y->rank - 1; axis++) {
        int64_t strides[OPERANDS] = {y->stride[axis]};
        for (int o = X; o < OPERANDS; o++) strides[o] = eb_broadcast_stride(eb_input(node, o - X), y->rank, axis);
        eb_loop_axis(&loop, y->shape[axis], strides);
    }
    return loop;
}

static void rotate(float *y, const float *x, const float *c, const float *s, int64_t half) {
    int64_t i = 0;
    for (; i + EB_VL <= half; i += EB_VL) {
        vf low = vf_load(x + i), high = vf_load(x + half + i);
        vf_store(y + i, low * vf_load(c + i) - high * vf_load(s + i));
        vf_store(y + half + i, high * vf_load(c + half + i) + low * vf_load(s + half + i));
    }
    if (i < half) {
        int64_t n = half - i;
        vf low = vf_load_part(x + i, n), high = vf_load_part(x + half + i, n);
        vf first = low * vf_load_part(c + i, n) - high * vf_load_part(s + i, n);
        vf second = high * vf_load_part(c + half + i, n) + low * vf_load_part(s + half + i, n);
        vf_store_part(y + i, first, n);
        vf_store_part(y + half + i, second, n);
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    float *y = eb_data(eb_output(node), bases);
    const float *x = eb_data(eb_input(node, EB_IN_ROPE_X), bases), *c = eb_data(eb_input(node, EB_IN_ROPE_COS), bases);
    const float *s = eb_data(eb_input(node, EB_IN_ROPE_SIN), bases);
    int64_t half = eb_output(node)->shape[eb_output(node)->rank - 1] / 2;
    eb_loop loop = loop_rows(node);
    eb_cursor at;
    int64_t row = begin * tiling_of(node)->rows, last = eb_min(loop.count, end * tiling_of(node)->rows);
    for (eb_cursor_seek(&loop, &at, row); row < last; row++, eb_cursor_advance(&loop, &at, 1))
        rotate(y + at.offset[Y], x + at.offset[X], c + at.offset[COSINE], s + at.offset[SINE], half);
    return EB_OK;
}
const eb_kernel EB_SYMBOL(rope, vector) = {plan, run};
