/* max_pool and avg_pool of images with their channels first, over one to three axes, a row of the result at a time. x may
 * have any strides.
 *
 * Windows are separable. First the lines of x that the windows of a row reach are combined, column by column, into one line in
 * scratch; then its columns are, window by window. So a window of k x k costs 2 k steps, and lines are read with vectors whatever
 * the windows' stride. The line has the neutral element where columns are padding. Long rows go in blocks, whose line stays in
 * the first-level cache. Of a stride of 1, 2 or 4, vectors lie along the windows; others are combined one by one.
 */
#include "math.h"
#include "pool_window.h"

typedef struct {
    int64_t rows;    /* rows of the result a tile */
    int64_t windows; /* windows of a row a block */
} tiling;
EB_NODE_PLAN(tiling)

/* Columns that a window reaches over. */
static int64_t span_of(const window *w) { return eb_add(eb_multiply(w->kernel[COLUMN] - 1, w->dilation[COLUMN]), 1); }

static eb_status plan_rows(eb_node *node, const int mean) {
    enum { WORTH = 1 << 16 /* elements read */, LINE = 2048, SLACK = 5 * EB_VL /* that vectors read past a line */ };
    const eb_tensor *y = eb_output(node);
    if (node->ints[EB_INT_POOL_CHANNELS_LAST] || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (eb_size(y) == 0) return EB_OK;
    const window w = describe(node, !mean, 0);
    const int64_t out = w.out[COLUMN], rows = eb_size(y) / out, stride = w.stride[COLUMN], span = span_of(&w);
    const int64_t line = eb_max(LINE, eb_multiply(span, 2)), windows = eb_max(1, eb_min(out, (line - span) / stride + 1));
    /* What the definition reads, and what this kernel does: taps outside of x cost nothing along the first two axes. */
    const int64_t lines = eb_multiply(eb_min(w.kernel[PLANE], w.in[PLANE]), eb_min(w.kernel[ROW], w.in[ROW]));
    const int64_t read = EB_MULTIPLY(rows, lines, out, eb_min(w.kernel[COLUMN], w.in[COLUMN]));
    const int64_t reach = eb_add(out > 1 ? eb_multiply(out, stride) : 0, eb_multiply(eb_ceil_div(out, windows), span));
    const int64_t steps = eb_multiply(rows, eb_add(eb_multiply(lines, reach), eb_multiply(out, w.kernel[COLUMN])));
    if (!eb_is_proportionate(eb_multiply(steps, 4), eb_add(eb_operand_bytes(node), read))) return EB_NOT_APPLICABLE;
    edit_tiling(node)->windows = windows;
    edit_tiling(node)->rows = eb_max(1, WORTH / eb_max(1, eb_add(eb_multiply(lines, reach), eb_multiply(out, w.kernel[COLUMN]))));
    node->tiles = eb_ceil_div(rows, tiling_of(node)->rows);
    node->scratch_bytes = eb_multiply((windows > 1 ? (windows - 1) * stride : 0) + span + SLACK, (int64_t)sizeof(float));
    return EB_OK;
}

EB_INLINE vf combine(vf found, vf v, const int mean) { return mean ? found + v : vf_maximum(v, found); }

EB_INLINE float combine_one(float found, float v, const int mean) {
    const float top = v > found ? v : found; /* a NaN that was found stays */
    return mean ? found + v : v != v ? v : top;
}

/* --- lines into one ---------------------------------------------------------------------------------------------------- */

/* What the windows of a row read of x: lines of some planes, the first of them at x. */
typedef struct {
    const float *x;
    int64_t lines[2], step[AXES];
} source;

/* N vectors of columns from `column` on. */
EB_INLINE void combine_vectors(const source *s, int64_t column, float *line, const int N, const int mean) {
    const float *plane = s->x + column;
    vf found[4];
    EB_UNROLL
    for (int v = 0; v < N; v++) found[v] = vf_set(mean ? 0 : -INFINITY);
    for (int64_t i = 0; i < s->lines[PLANE]; i++, plane += s->step[PLANE]) {
        const float *from = plane;
        for (int64_t j = 0; j < s->lines[ROW]; j++, from += s->step[ROW]) {
            EB_UNROLL
            for (int v = 0; v < N; v++) found[v] = combine(found[v], vf_load(from + v * EB_VL), mean);
        }
    }
    EB_UNROLL
    for (int v = 0; v < N; v++) vf_store(line + v * EB_VL, found[v]);
}

/* Columns [begin, end) into `line`. */
EB_INLINE void combine_lines(const source *s, int64_t begin, int64_t end, float *line, const int mean) {
    const int64_t count = end - begin;
    if (s->step[COLUMN] == 1 && count >= EB_VL) {
        int64_t c = 0;
        for (; c + 4 * EB_VL <= count; c += 4 * EB_VL) combine_vectors(s, begin + c, line + c, 4, mean);
        for (; c + EB_VL <= count; c += EB_VL) combine_vectors(s, begin + c, line + c, 1, mean);
        if (c < count) combine_vectors(s, end - EB_VL, line + count - EB_VL, 1, mean);
        return;
    }
    for (int64_t c = 0; c < count; c++) line[c] = mean ? 0 : -INFINITY;
    for (int64_t i = 0; i < s->lines[PLANE]; i++)
        for (int64_t j = 0; j < s->lines[ROW]; j++) {
            const float *from = s->x + i * s->step[PLANE] + j * s->step[ROW] + begin * s->step[COLUMN];
            for (int64_t c = 0; c < count; c++) line[c] = combine_one(line[c], from[c * s->step[COLUMN]], mean);
        }
}

/* The line that windows [first, first + windows) need. */
EB_INLINE void fill_line(const window *w, const source *s, int64_t first, int64_t windows, float *line, const int mean) {
    const int64_t from = first * w->stride[COLUMN] - w->low[COLUMN], size = (windows - 1) * w->stride[COLUMN] + span_of(w);
    const int64_t begin = eb_min(eb_max(0, -from), size), end = eb_max(begin, eb_min(size, w->in[COLUMN] - from));
    for (int64_t c = 0; c < begin; c++) line[c] = mean ? 0 : -INFINITY;
    for (int64_t c = end; c < size; c++) line[c] = mean ? 0 : -INFINITY;
    if (begin < end) combine_lines(s, from + begin, from + end, line + begin, mean);
}

/* --- windows of a line ------------------------------------------------------------------------------------------------- */

#if EB_VL == 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#elif EB_VL == 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#else
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#endif

/* The even and the odd ones of 2 * EB_VL floats. */
EB_INLINE void load_pairs(const float *x, vf *pairs) {
    const vf low = vf_load(x), high = vf_load(x + EB_VL);
    pairs[0] = EB_SHUFFLE(low, high, EVEN);
    pairs[1] = EB_SHUFFLE(low, high, ODD);
}

/* What windows at x, `stride` apart, have as their first columns: taps[i] has column i of EB_VL windows. Stride 1, 2 or 4. */
EB_INLINE void load_taps(const float *x, const int stride, vf *taps) {
    if (stride == 1) {
        taps[0] = vf_load(x);
    } else if (stride == 2) {
        load_pairs(x, taps);
    } else {
        vf low[2], high[2];
        load_pairs(x, low);
        load_pairs(x + 2 * EB_VL, high);
        EB_UNROLL
        for (int i = 0; i < 4; i++) taps[i] = i < 2 ? EB_SHUFFLE(low[i], high[i], EVEN) : EB_SHUFFLE(low[i - 2], high[i - 2], ODD);
    }
}

/* EB_VL windows at `line`. With a stride above 1, their columns are neighbours. */
EB_INLINE vf combine_window(const window *w, const float *line, const int stride, const int mean) {
    const int64_t kernel = w->kernel[COLUMN], step = stride == 1 ? w->dilation[COLUMN] : stride;
    vf found = vf_set(mean ? 0 : -INFINITY);
    for (int64_t k = 0; k < kernel; k += stride, line += step) {
        vf taps[4];
        load_taps(line, stride, taps);
        EB_UNROLL
        for (int i = 0; i < stride; i++)
            if (k + i < kernel) found = combine(found, taps[i], mean);
    }
    return found;
}

EB_INLINE void combine_windows(const window *w, const float *line, int64_t windows, float *y, const int stride, const int mean) {
    int64_t n = 0;
    for (; n + EB_VL <= windows; n += EB_VL) vf_store(y + n, combine_window(w, line + n * stride, stride, mean));
    if (n == windows) return;
    if (windows >= EB_VL) { /* windows computed twice have the same result */
        n = windows - EB_VL;
        vf_store(y + n, combine_window(w, line + n * stride, stride, mean));
    } else {
        vf_store_part(y, combine_window(w, line, stride, mean), windows);
    }
}

EB_INLINE void pool_line(const window *w, const float *line, int64_t windows, float *y, const int mean) {
    const int64_t stride = w->stride[COLUMN];
    const int is_wide = 2 * windows >= EB_VL && (stride == 1 || w->dilation[COLUMN] == 1);
    if (is_wide && stride == 1) {
        combine_windows(w, line, windows, y, 1, mean);
    } else if (is_wide && stride == 2) {
        combine_windows(w, line, windows, y, 2, mean);
    } else if (is_wide && stride == 4) {
        combine_windows(w, line, windows, y, 4, mean);
    } else {
        for (int64_t n = 0; n < windows; n++) {
            const float *from = line + n * stride;
            float found = from[0];
            for (int64_t k = 1; k < w->kernel[COLUMN]; k++) found = combine_one(found, from[k * w->dilation[COLUMN]], mean);
            y[n] = found;
        }
    }
}

/* --- the divisor of a mean --------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t rows;    /* the number of elements that count along the other axes */
    int64_t divisor; /* 0: as many elements as count */
    int padding;     /* whether those of the padding do */
    int64_t begin, end; /* the windows of a row that have every column within x */
} divisors;

/* Windows that have every column within x. */
static void find_inner(const window *w, divisors *d) {
    int64_t ignored;
    const int64_t last = (w->kernel[COLUMN] - 1) * w->dilation[COLUMN] - w->low[COLUMN];
    eb_clip(-w->low[COLUMN], w->stride[COLUMN], w->in[COLUMN], w->out[COLUMN], &d->begin, &ignored);
    eb_clip(last, w->stride[COLUMN], w->in[COLUMN], w->out[COLUMN], &ignored, &d->end);
    d->end = eb_max(d->begin, d->end);
}

static float factor(const divisors *d, int64_t columns) {
    return 1.0f / (float)(d->divisor ? d->divisor : d->rows * columns);
}

static void divide(const window *w, const divisors *d, float *y) {
    const int64_t stride = w->stride[COLUMN], low = w->low[COLUMN];
    const float whole = factor(d, w->kernel[COLUMN]);
    for (int64_t n = 0; n < d->begin; n++) y[n] *= factor(d, count_elements(w, COLUMN, n * stride - low, d->padding));
    for (int64_t n = d->begin; n < d->end; n++) y[n] *= whole;
    for (int64_t n = d->end; n < w->out[COLUMN]; n++) y[n] *= factor(d, count_elements(w, COLUMN, n * stride - low, d->padding));
}

EB_INLINE eb_status run_rows(const eb_node *node, void *const *bases, int64_t begin, int64_t end, float *line, const int mean) {
    const window w = describe(node, !mean, 0);
    const eb_tensor *t = eb_input(node, EB_IN_POOL_X);
    const int64_t channels = t->shape[1], windows = tiling_of(node)->windows;
    const float *x = eb_data(t, bases);
    float *y = eb_data(eb_output(node), bases);
    source s;
    for (int a = 0; a < AXES; a++) s.step[a] = pool_axis(t->rank, a, 0) < 0 ? 0 : t->stride[pool_axis(t->rank, a, 0) + 2];
    divisors d = {.divisor = mean ? node->ints[EB_INT_AVG_POOL_DIVISOR] : 0,
                  .padding = mean && node->ints[EB_INT_AVG_POOL_COUNT_PADDING]};
    if (mean) find_inner(&w, &d);
    const int64_t rows = eb_size(eb_output(node)) / w.out[COLUMN], last = eb_min(rows, end * tiling_of(node)->rows);
    for (int64_t r = begin * tiling_of(node)->rows; r < last; r++) {
        const int64_t picture = r / (w.out[ROW] * w.out[PLANE]), at[] = {r / w.out[ROW] % w.out[PLANE], r % w.out[ROW]};
        float *to = y + r * w.out[COLUMN];
        s.x = x + picture / channels * t->stride[0] + picture % channels * t->stride[1];
        d.rows = 1;
        int64_t step[2]; /* of the lines that a window reads */
        source lines = s;
        for (int a = PLANE; a <= ROW; a++) {
            const int64_t first = at[a] * w.stride[a] - w.low[a];
            int64_t tap, tap_end;
            eb_clip(first, w.dilation[a], w.in[a], w.kernel[a], &tap, &tap_end);
            d.rows *= count_elements(&w, a, first, d.padding);
            lines.lines[a] = eb_max(0, tap_end - tap);
            if (lines.lines[a] > 0) lines.x += (first + tap * w.dilation[a]) * s.step[a];
            step[a] = lines.lines[a] > 1 ? w.dilation[a] * s.step[a] : 0; /* of a single line it may overflow */
        }
        lines.step[PLANE] = step[PLANE], lines.step[ROW] = step[ROW];
        for (int64_t n = 0; n < w.out[COLUMN]; n += windows) {
            const int64_t count = eb_min(windows, w.out[COLUMN] - n);
            fill_line(&w, &lines, n, count, line, mean);
            pool_line(&w, line, count, to + n, mean);
        }
        if (mean) divide(&w, &d, to);
    }
    return EB_OK;
}

#define ROWS_POOL_KERNEL(op, mean)                                                                               \
    static eb_status plan_##op(eb_node *node) { return plan_rows(node, mean); }                                  \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) { \
        return run_rows(n, bases, begin, end, scratch, mean);                                                    \
    }                                                                                                            \
    const eb_kernel EB_SYMBOL(op, rows) = {plan_##op, run_##op};
ROWS_POOL_KERNEL(max_pool, 0)
ROWS_POOL_KERNEL(avg_pool, 1)
