/* max_pool and avg_pool over two spatial axes of channels-last images: a window's taps are vectors of channels. */
#include "../../ops.h"
#include "math.h"

/* private: rows of the result a tile */
enum { AT_ROWS };

typedef struct {
    int64_t H, W, C, out_h, out_w, kernel[2], stride[2], low[2], high[2], dilation[2];
} window;

/* The attributes of both ops begin alike. */
_Static_assert((int)EB_INT_MAX_POOL_HIGH == (int)EB_INT_AVG_POOL_HIGH, "the windows of max_pool and avg_pool differ");

static window describe(const eb_node *node, int dilates) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    window w = {.H = x->shape[1], .W = x->shape[2], .C = x->shape[3], .out_h = y->shape[1], .out_w = y->shape[2]};
    for (int axis = 0; axis < 2; axis++) {
        w.kernel[axis] = node->ints[EB_INT_MAX_POOL_KERNEL + axis];
        w.stride[axis] = node->ints[EB_INT_MAX_POOL_STRIDE + axis];
        w.low[axis] = node->ints[EB_INT_MAX_POOL_LOW + axis];
        w.high[axis] = node->ints[EB_INT_MAX_POOL_HIGH + axis];
        w.dilation[axis] = dilates ? node->ints[EB_INT_MAX_POOL_DILATION + axis] : 1;
    }
    return w;
}

static eb_status plan(eb_node *node) {
    enum { WORTH = 1 << 16 }; /* elements read */
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    if (x->dtype != EB_F32 || x->rank != 4 || !node->ints[node->n_ints - 1] || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x)) return EB_NEEDS_DENSE;
    window w = describe(node, 0);
    int64_t row = w.out_w * w.C * w.kernel[0] * w.kernel[1];
    node->private[AT_ROWS] = eb_max(1, WORTH / eb_max(1, row));
    node->tiles = eb_size(y) ? eb_ceil_div(y->shape[0] * w.out_h, node->private[AT_ROWS]) : 0;
    return EB_OK;
}

/* Taps [begin, end) of an axis that lie within x, for a window whose first tap is at `first`. */
EB_INLINE void clip(int64_t first, int64_t dilation, int64_t taps, int64_t size, int64_t *begin, int64_t *end) {
    *begin = first < 0 ? eb_ceil_div(-first, dilation) : 0;
    *end = eb_min(taps, first < size ? eb_ceil_div(size - first, dilation) : 0);
}

/* One place of the result: y [C] from the taps at x + i * row + j * column. mean: sums times scale. */
EB_INLINE void pool_place(const float *x, int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t C, int mean,
                          float scale, float *y) {
    for (int64_t c = 0; c < C; c += EB_VL) {
        int64_t count = eb_min(EB_VL, C - c);
        vf found = vf_set(mean ? 0 : -INFINITY);
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                const float *tap = x + i * row + j * column + c;
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

/* Elements along an axis that a mean divides by: those within x and, if they count, those of the padding. */
static int64_t counted(const window *w, int axis, int64_t first, int64_t size, int padding) {
    int64_t last = eb_min(first + w->kernel[axis], size + w->high[axis]);
    return padding ? last - first : eb_min(last, size) - eb_max(first, 0);
}

EB_INLINE eb_status run_windows(const eb_node *node, void *const *bases, int64_t begin, int64_t end, const int mean) {
    const window w = describe(node, !mean);
    const int64_t divisor = mean ? node->ints[EB_INT_AVG_POOL_DIVISOR] : 0;
    const int padding = mean && node->ints[EB_INT_AVG_POOL_COUNT_PADDING];
    const float *x = eb_data(eb_input(node, 0), bases);
    float *y = eb_data(eb_output(node), bases);
    int64_t last = eb_min(eb_input(node, 0)->shape[0] * w.out_h, end * node->private[AT_ROWS]);
    for (int64_t r = begin * node->private[AT_ROWS]; r < last; r++) {
        const float *picture = x + r / w.out_h * w.H * w.W * w.C;
        int64_t top = r % w.out_h * w.stride[0] - w.low[0], i, i_end;
        clip(top, w.dilation[0], w.kernel[0], w.H, &i, &i_end);
        for (int64_t column = 0; column < w.out_w; column++) {
            int64_t left = column * w.stride[1] - w.low[1], j, j_end;
            clip(left, w.dilation[1], w.kernel[1], w.W, &j, &j_end);
            const float *taps = picture + ((top + i * w.dilation[0]) * w.W + left + j * w.dilation[1]) * w.C;
            float scale = 0;
            if (mean)
                scale = 1.0f / (float)(divisor ? divisor : counted(&w, 0, top, w.H, padding) * counted(&w, 1, left, w.W, padding));
            pool_place(taps, i_end - i, j_end - j, w.dilation[0] * w.W * w.C, w.dilation[1] * w.C, w.C, mean, scale,
                       y + (r * w.out_w + column) * w.C);
        }
    }
    return EB_OK;
}

#define POOL(op, mean)                                                                                           \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) { \
        (void)scratch;                                                                                           \
        return run_windows(n, bases, begin, end, mean);                                                          \
    }                                                                                                            \
    const eb_kernel EB_SYMBOL(op, vector) = {plan, run_##op, NULL, NULL};
POOL(max_pool, 0)
POOL(avg_pool, 1)
