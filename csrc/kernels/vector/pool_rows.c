/* max_pool and avg_pool of images with their channels first, over one to three axes: a row of the result is gathered tap by
 * tap, each a vector of columns. x may have any strides.
 */
#include "math.h"
#include "pool_window.h"

typedef struct {
    int64_t rows; /* rows of the result a tile */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node) {
    enum { WORTH = 1 << 16 }; /* elements read */
    const eb_tensor *y = eb_output(node);
    if (node->ints[node->n_ints - 1] || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    const window w = describe(node, 0, 0);
    const int64_t row = EB_PRODUCT(w.out[COLUMN], w.kernel[PLANE], w.kernel[ROW], w.kernel[COLUMN]);
    if (eb_size(y) == 0) return EB_OK;
    const int64_t rows = eb_size(y) / w.out[COLUMN];
    /* Taps that lie within x of no window cost a step each along the last axis, and nothing along the others. */
    const int64_t lines = EB_PRODUCT(rows, eb_min(w.kernel[PLANE], w.in[PLANE]), eb_min(w.kernel[ROW], w.in[ROW]));
    const int64_t read = EB_PRODUCT(lines, w.out[COLUMN], eb_min(w.kernel[COLUMN], w.in[COLUMN]));
    if (!eb_is_proportionate(EB_PRODUCT(lines, w.kernel[COLUMN], EB_STEP_BYTES), eb_add(eb_operand_bytes(node), read)))
        return EB_NOT_APPLICABLE;
    edit_tiling(node)->rows = eb_max(1, WORTH / eb_max(1, row));
    node->tiles = eb_ceil_div(rows, tiling_of(node)->rows);
    return EB_OK;
}

EB_INLINE vf combine(vf found, vf v, const int mean) { return mean ? found + v : vf_maximum(v, found); }

/* Floats that lie `step` apart. */
EB_INLINE vf load_apart(const float *x, const int64_t step, int64_t count) {
    if (step == 1) return count == EB_VL ? vf_load(x) : vf_load_part(x, count);
    float lanes[EB_VL] = {0};
    for (int64_t l = 0; l < count; l++) lanes[l] = x[l * step];
    return vf_load(lanes);
}

/* One tap of `count` neighbouring windows into what was found of them so far. */
EB_INLINE void add_tap(const float *x, const int64_t step, int64_t count, const int mean, float *y) {
    for (int64_t n = 0; n < count; n += EB_VL, x += EB_VL * step) {
        const int64_t lanes = eb_min(EB_VL, count - n);
        if (lanes == EB_VL)
            vf_store(y + n, combine(vf_load(y + n), load_apart(x, step, EB_VL), mean));
        else
            vf_store_part(y + n, combine(vf_load_part(y + n, lanes), load_apart(x, step, lanes), mean), lanes);
    }
}

/* x: a row of it; offset: of the tap, for the first window. */
EB_INLINE void add_row(const window *w, const float *x, int64_t x_step, int64_t offset, const int mean, float *y) {
    int64_t begin, end;
    eb_clip(offset, w->stride[COLUMN], w->in[COLUMN], w->out[COLUMN], &begin, &end);
    const int64_t step = end - begin > 1 ? w->stride[COLUMN] * x_step : 0; /* of a single window it may overflow */
    const float *from = begin < end ? x + (offset + begin * w->stride[COLUMN]) * x_step : x;
    if (step == 1)
        add_tap(from, 1, end - begin, mean, y + begin);
    else
        add_tap(from, step, end - begin, mean, y + begin);
}

/* Sums to means; `rows`: the number of elements that count along the other axes. */
static void divide(const window *w, double rows, int64_t divisor, int padding, float *y) {
    for (int64_t n = 0; n < w->out[COLUMN]; n++) {
        const int64_t first = n * w->stride[COLUMN] - w->low[COLUMN];
        y[n] *= 1.0f / (divisor ? (float)divisor : (float)(rows * count_elements(w, COLUMN, first, padding)));
    }
}

EB_INLINE eb_status run_pool_rows(const eb_node *node, void *const *bases, int64_t begin, int64_t end, const int mean) {
    const window w = describe(node, !mean, 0);
    const eb_tensor *t = eb_input(node, EB_IN_MAX_POOL_X);
    const int64_t divisor = mean ? node->ints[EB_INT_AVG_POOL_DIVISOR] : 0, channels = t->shape[1];
    const int padding = mean && node->ints[EB_INT_AVG_POOL_COUNT_PADDING];
    const float *x = eb_data(t, bases);
    float *y = eb_data(eb_output(node), bases);
    int64_t step[AXES];
    for (int a = 0; a < AXES; a++) step[a] = pool_axis(t->rank, a, 0) < 0 ? 0 : t->stride[pool_axis(t->rank, a, 0) + 2];
    const int64_t rows = eb_size(eb_output(node)) / w.out[COLUMN], last = eb_min(rows, end * tiling_of(node)->rows);
    for (int64_t r = begin * tiling_of(node)->rows; r < last; r++) {
        const int64_t picture = r / (w.out[ROW] * w.out[PLANE]);
        const int64_t at[] = {r / w.out[ROW] % w.out[PLANE], r % w.out[ROW]};
        const float *from = x + picture / channels * t->stride[0] + picture % channels * t->stride[1];
        float *to = y + r * w.out[COLUMN];
        int64_t first[2], tap[2], tap_end[2];
        double count = 1;
        for (int a = PLANE; a <= ROW; a++) {
            first[a] = at[a] * w.stride[a] - w.low[a];
            eb_clip(first[a], w.dilation[a], w.in[a], w.kernel[a], &tap[a], &tap_end[a]);
            count *= count_elements(&w, a, first[a], padding);
        }
        for (int64_t n = 0; n < w.out[COLUMN]; n++) to[n] = mean ? 0 : -INFINITY;
        for (int64_t i = tap[PLANE]; i < tap_end[PLANE]; i++)
            for (int64_t j = tap[ROW]; j < tap_end[ROW]; j++) {
                const int64_t plane = first[PLANE] + i * w.dilation[PLANE], line = first[ROW] + j * w.dilation[ROW];
                for (int64_t k = 0; k < w.kernel[COLUMN]; k++)
                    add_row(&w, from + plane * step[PLANE] + line * step[ROW], step[COLUMN],
                            k * w.dilation[COLUMN] - w.low[COLUMN], mean, to);
            }
        if (mean) divide(&w, count, divisor, padding, to);
    }
    return EB_OK;
}

#define ROWS_POOL_KERNEL(op, mean)                                                                               \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) { \
        (void)scratch;                                                                                           \
        return run_pool_rows(n, bases, begin, end, mean);                                                        \
    }                                                                                                            \
    const eb_kernel EB_SYMBOL(op, rows) = {plan, run_##op};
ROWS_POOL_KERNEL(max_pool, 0)
ROWS_POOL_KERNEL(avg_pool, 1)
