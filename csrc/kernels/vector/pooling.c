/* max_pool and avg_pool over one to three spatial axes of channels-last images: a window's taps are vectors of channels. */
#include "math.h"
#include "pool_window.h"

typedef struct {
    int64_t rows; /* rows of the result a tile */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node) {
    enum { WORTH = 1 << 16 }; /* elements read */
    const eb_tensor *x = eb_input(node, EB_IN_POOL_X), *y = eb_output(node);
    if (!node->ints[EB_INT_POOL_CHANNELS_LAST] || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x)) return EB_NEEDS_DENSE;
    const window w = describe(node, 0, 1);
    const int64_t C = x->shape[x->rank - 1];
    const int64_t row = EB_MULTIPLY(w.out[COLUMN], C, w.kernel[PLANE], w.kernel[ROW], w.kernel[COLUMN]);
    edit_tiling(node)->rows = eb_max(1, WORTH / eb_max(1, row));
    node->tiles = eb_size(y) ? eb_ceil_div(y->shape[0] * w.out[PLANE] * w.out[ROW], tiling_of(node)->rows) : 0;
    return EB_OK;
}

/* One place of the result: y [C] from `taps` of each axis, `step` apart, from x on. mean: sums times scale. */
EB_INLINE void pool_place(const float *x, const int64_t *taps, const int64_t *step, int64_t C, int mean, float scale, float *y) {
    const int64_t planes = taps[PLANE], rows = taps[ROW], columns = taps[COLUMN];
    for (int64_t c = 0; c < C; c += EB_VL) {
        int64_t count = eb_min(EB_VL, C - c);
        vf found = vf_set(mean ? 0 : -INFINITY);
        for (int64_t plane = 0; plane < planes; plane++)
            for (int64_t i = 0; i < rows; i++)
                for (int64_t j = 0; j < columns; j++) {
                    const float *tap = x + plane * step[PLANE] + i * step[ROW] + j * step[COLUMN] + c;
                    vf v = count == EB_VL ? vf_load(tap) : vf_load_part(tap, count);
                    found = mean ? found + v : vf_maximum(v, found);
                }
        if (mean) found *= scale;
        if (count == EB_VL)
            vf_store(y + c, found);
        else
            vf_store_part(y + c, found, count);
    }
}

/* The window of place `at` along an axis: where its taps within x begin, 0 if there are none, and how many there are.
 * `count` is multiplied by the number of elements that count in a mean. */
EB_INLINE int64_t enter(const window *w, int axis, int64_t at, int padding, int64_t *taps, int64_t *count) {
    int64_t first = at * w->stride[axis] - w->low[axis], begin, end;
    eb_clip(first, w->dilation[axis], w->in[axis], w->kernel[axis], &begin, &end);
    taps[axis] = end - begin;
    *count *= count_elements(w, axis, first, padding);
    return begin < end ? first + begin * w->dilation[axis] : 0;
}

/* How far the taps of a window lie apart along an axis whose neighbours lie `apart` from each other. Of a dilation of the
 * axis's size or more, one tap at most lies within x. */
static inline int64_t step_of(const window *w, int axis, int64_t apart) {
    return eb_min(w->dilation[axis], w->in[axis]) * apart;
}

EB_INLINE eb_status run_windows(const eb_node *node, void *const *bases, int64_t begin, int64_t end, const int mean) {
    const window w = describe(node, !mean, 1);
    const eb_tensor *given = eb_input(node, EB_IN_POOL_X);
    const int64_t C = given->shape[given->rank - 1];
    const int64_t divisor = mean ? node->ints[EB_INT_AVG_POOL_DIVISOR] : 0;
    const int padding = mean && node->ints[EB_INT_AVG_POOL_COUNT_PADDING];
    const float *x = eb_data(given, bases);
    float *y = eb_data(eb_output(node), bases);
    const int64_t line = w.in[COLUMN] * C, plane = w.in[ROW] * line, places = w.out[PLANE] * w.out[ROW];
    const int64_t step[AXES] = {step_of(&w, PLANE, plane), step_of(&w, ROW, line), step_of(&w, COLUMN, C)};
    int64_t last = eb_min(given->shape[0] * places, end * tiling_of(node)->rows);
    for (int64_t r = begin * tiling_of(node)->rows; r < last; r++) {
        int64_t taps[AXES];
        int64_t rows = 1;
        const float *picture = x + r / places * w.in[PLANE] * plane;
        picture += enter(&w, PLANE, r % places / w.out[ROW], padding, taps, &rows) * plane;
        picture += enter(&w, ROW, r % w.out[ROW], padding, taps, &rows) * line;
        for (int64_t column = 0; column < w.out[COLUMN]; column++) {
            int64_t count = rows;
            const int64_t left = enter(&w, COLUMN, column, padding, taps, &count);
            const float scale = mean ? 1.0f / (float)(divisor ? divisor : count) : 0;
            pool_place(picture + left * C, taps, step, C, mean, scale, y + (r * w.out[COLUMN] + column) * C);
        }
    }
    return EB_OK;
}

#define WINDOW_POOL_KERNEL(op, mean)                                                                             \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) { \
        (void)scratch;                                                                                           \
        return run_windows(n, bases, begin, end, mean);                                                          \
    }                                                                                                            \
    const eb_kernel EB_SYMBOL(op, vector) = {plan, run_##op};
WINDOW_POOL_KERNEL(max_pool, 0)
WINDOW_POOL_KERNEL(avg_pool, 1)
