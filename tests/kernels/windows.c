/* Pooling, pad and resample: windows and taps that reach past the ends of their axes, one to three axes, all layouts. */
#include <math.h>
#include <string.h>

#include "iterate.h"
#include "suite.h"

static void make_image_pool(test_case *c, const char *op, const image_shape *s, int ceil_mode, int channels_last) {
    int is_max = op[0] == 'm';
    int64_t dilation = is_max ? s->dilation : 1, out[2], padded[2] = {s->H + s->low_h + s->high_h, s->W + s->low_w + s->high_w};
    const int64_t kernel[2] = {s->kernel_h, s->kernel_w}, size[2] = {s->H + s->low_h, s->W + s->low_w};
    for (int axis = 0; axis < 2; axis++) {
        int64_t room = padded[axis] - dilation * (kernel[axis] - 1) - 1;
        out[axis] = (room + (ceil_mode ? s->stride - 1 : 0)) / s->stride + 1;
        if (ceil_mode && (out[axis] - 1) * s->stride >= size[axis]) out[axis]--;
    }
    case_begin(c, op, is_max ? 0 : 1e-6, "%ldx%ldx%ldx%ld, last %d, kernel %ldx%ld stride %ld dilation %ld ceil %d "
               "low %ld %ld bias %d divisor %d layout %d", (long)s->N, (long)s->H, (long)s->W, (long)s->C, channels_last,
               (long)s->kernel_h, (long)s->kernel_w, (long)s->stride, (long)dilation, ceil_mode, (long)s->low_h, (long)s->low_w,
               s->bias, s->residual, (int)s->how);
    if (channels_last) {
        case_input(c, EB_F32, s->how, 1, SHAPE(s->N, s->H, s->W, s->C));
        case_output(c, EB_F32, DENSE, SHAPE(s->N, out[0], out[1], s->C));
    } else {
        case_input(c, EB_F32, s->how, 1, SHAPE(s->N, s->C, s->H, s->W));
        case_output(c, EB_F32, DENSE, SHAPE(s->N, s->C, out[0], out[1]));
    }
    for (int axis = 0; axis < 2; axis++) {
        c->ints[EB_INT_POOL_KERNEL + axis] = kernel[axis];
        c->ints[EB_INT_POOL_STRIDE + axis] = s->stride;
        if (is_max) c->ints[EB_INT_MAX_POOL_DILATION + axis] = dilation;
    }
    c->ints[EB_INT_POOL_LOW] = s->low_h, c->ints[EB_INT_POOL_LOW + 1] = s->low_w;
    c->ints[EB_INT_POOL_HIGH] = s->high_h, c->ints[EB_INT_POOL_HIGH + 1] = s->high_w;
    c->ints[is_max ? EB_INT_MAX_POOL_CEIL_MODE : EB_INT_AVG_POOL_CEIL_MODE] = ceil_mode;
    if (!is_max) c->ints[EB_INT_AVG_POOL_COUNT_PADDING] = s->bias, c->ints[EB_INT_AVG_POOL_DIVISOR] = s->residual;
    c->ints[EB_INT_POOL_CHANNELS_LAST] = channels_last;
    c->node.n_ints = (is_max ? EB_INT_MAX_POOL_CEIL_MODE : EB_INT_AVG_POOL_DIVISOR) + 1;
}

/* Every second of the shapes is that of a mean. bias: whether padding counts in it; residual: its divisor. */
static void add_image_pools(case_visitor *v) {
    static const int64_t channels[] = {1, 3, 4, 15, 16, 17, 40, 64};
    for (int i = v->op[0] == 'a'; i < 128; i += 2) {
        image_shape s = {.N = 1 + i % 2, .H = 5 + i % 5, .W = 5 + i % 7, .C = channels[i / 2 % 8], .dilation = 1 + i % 3 / 2};
        random_seed((uint64_t)i);
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + random_below(3), s.stride = 1 + random_below(3);
        s.low_h = s.high_h = random_below(s.kernel_h), s.low_w = s.high_w = random_below(s.kernel_w);
        s.bias = i % 4 / 2, s.residual = i % 8 == 7 ? 5 : 0, s.how = i % 6 == 5 ? SWAPPED : DENSE;
        test_case c;
        make_image_pool(&c, v->op, &s, i % 3 == 0, i < 64);
        if (i % 2 == 0 && i % 10 == 0) case_specials(&c, 0);
        visit_case(v, &c);
    }
}

/* Rows of the result of some vectors, of a part of one, and of several blocks (pool_rows.c); strides of 1 to 8. */
static void add_wide_pools(case_visitor *v) {
    static const int64_t widths[] = {14, 31, 33, 64, 67, 129, 260, 2500, 4700};
    for (int i = v->op[0] == 'a'; i < 144; i += 2) {
        image_shape s = {.N = 1, .H = 3 + i % 7, .W = widths[i / 2 % 9], .C = 1 + i % 3, .dilation = 1 + i % 5 / 4};
        random_seed((uint64_t)i);
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + i / 16 % 9, s.stride = 1 + i / 2 % 8;
        s.low_h = s.high_h = random_below(s.kernel_h), s.low_w = random_below(s.kernel_w), s.high_w = random_below(s.kernel_w);
        s.bias = i % 4 / 2, s.how = i % 12 == 11 ? SWAPPED : DENSE;
        if (s.dilation * (s.kernel_w - 1) >= s.W) continue;
        test_case c;
        make_image_pool(&c, v->op, &s, i % 3 == 0, 0);
        case_note(&c, " wide %d", i);
        if (i % 10 == 0) case_specials(&c, 0);
        visit_case(v, &c);
    }
}

/* Pictures of 64 channels: ResNet's of 3 x 3 / 2, and 2 x 2 / 2, with their channels last and first. */
static void time_pools(case_visitor *v) {
    for (int i = 0; i < 4; i++) {
        const int last = i % 2 == 0, kernel = i / 2 ? 2 : 3;
        const int64_t pad = kernel == 3;
        test_case c;
        make_image_pool(&c, v->op, &(image_shape){1, 112, 112, 64, 64, kernel, kernel, 2, 1, pad, pad, pad, pad, 1, 0, 0, DENSE},
                        0, last);
        case_timed(&c, 56.0 * 56 * 64 * kernel * kernel, "%dx%d/2, 112x112, 64 channels %s", kernel, kernel, last ? "last" : "first");
        visit_case(v, &c);
    }
}

/* Windows of 3 by 2, two steps apart, one element of padding in front of the last axis; `past`: with one more window. */
static void add_pool(case_visitor *v, layout how, int past) {
    const int mean = v->op[0] == 'a';
    test_case c;
    int64_t kernel[] = {3, 2}, stride[] = {2, 2}, low[] = {0, 1}, high[] = {0, 0}, dilation[] = {1, 1};
    case_begin(&c, v->op, 1e-6, "layout %d past %d", (int)how, past);
    case_input(&c, EB_F32, how, 1, SHAPE(2, 3, 8, 9));
    case_output(&c, EB_F32, DENSE, SHAPE(2, 3, 3 + past, 5));
    case_ints(&c, EB_INT_POOL_KERNEL, 2, kernel);
    case_ints(&c, EB_INT_POOL_STRIDE, 2, stride);
    case_ints(&c, EB_INT_POOL_LOW, 2, low);
    case_ints(&c, EB_INT_POOL_HIGH, 2, high);
    if (mean) {
        c.node.n_ints = EB_INT_AVG_POOL_DIVISOR + 1;
        c.ints[EB_INT_AVG_POOL_CEIL_MODE] = past;
        c.ints[EB_INT_AVG_POOL_COUNT_PADDING] = !past;
        c.ints[EB_INT_AVG_POOL_DIVISOR] = 0;
    } else {
        c.node.n_ints = EB_INT_MAX_POOL_CEIL_MODE + 1;
        case_ints(&c, EB_INT_MAX_POOL_DILATION, 2, dilation);
        c.ints[EB_INT_MAX_POOL_CEIL_MODE] = past;
        case_specials(&c, 0);
    }
    visit_case(v, &c);
}

/* One to three axes, every attribute; windows that reach past either end. Odd numbers are those of a mean. */
static void add_pool_axes(case_visitor *v, int i, int channels_last) {
    static const int64_t channels[] = {1, 3, 16, 17, 40};
    const int mean = i % 2, axes = 1 + i / 2 % 3, past = i % 5 == 4, last = axes + 1;
    int64_t x[5] = {1 + i % 3 / 2}, y[5] = {1 + i % 3 / 2}, kernel[3], stride[3], low[3], high[3], dilation[3];
    random_seed((uint64_t)i);
    for (int a = 0; a < axes; a++) {
        x[1 + a] = 4 + random_below(axes == 1 ? 120 : 6); /* one axis: rows of several vectors, in steps of 2 too */
        kernel[a] = 1 + random_below(3), stride[a] = 1 + random_below(3), dilation[a] = mean ? 1 : 1 + random_below(2);
        low[a] = random_below(kernel[a] / 2 + 1), high[a] = random_below(kernel[a] / 2 + 1);
        const int64_t room = x[1 + a] + low[a] + high[a] - dilation[a] * (kernel[a] - 1) - 1;
        y[1 + a] = (room + (past ? stride[a] - 1 : 0)) / stride[a] + 1;
        if (past && (y[1 + a] - 1) * stride[a] >= x[1 + a] + low[a]) y[1 + a]--;
    }
    x[last] = y[last] = channels[i % 5];
    if (!channels_last) {
        for (int a = last; a > 1; a--) x[a] = x[a - 1], y[a] = y[a - 1];
        x[1] = y[1] = channels[i % 5];
    }
    test_case c;
    case_begin(&c, v->op, mean ? 1e-6 : 0, "channels last %d, %d axes, past %d, number %d",
               channels_last, axes, past, i);
    case_input(&c, EB_F32, i % 7 == 6 ? SWAPPED : i % 7 == 5 && !channels_last ? SCATTERED : DENSE, 1, last + 1, x);
    case_output(&c, EB_F32, DENSE, last + 1, y);
    case_ints(&c, EB_INT_POOL_KERNEL, axes, kernel);
    case_ints(&c, EB_INT_POOL_STRIDE, axes, stride);
    case_ints(&c, EB_INT_POOL_LOW, axes, low);
    case_ints(&c, EB_INT_POOL_HIGH, axes, high);
    c.ints[mean ? EB_INT_AVG_POOL_CEIL_MODE : EB_INT_MAX_POOL_CEIL_MODE] = past;
    c.ints[EB_INT_POOL_CHANNELS_LAST] = channels_last;
    c.node.n_ints = (mean ? EB_INT_AVG_POOL_DIVISOR : EB_INT_MAX_POOL_CEIL_MODE) + 1;
    if (mean)
        c.ints[EB_INT_AVG_POOL_COUNT_PADDING] = i % 3 == 0, c.ints[EB_INT_AVG_POOL_DIVISOR] = i % 9 == 1 ? 5 : 0;
    else
        case_ints(&c, EB_INT_MAX_POOL_DILATION, axes, dilation), case_specials(&c, 0);
    visit_case(v, &c);
}

void cases_pool(case_visitor *v) {
    add_image_pools(v);
    add_wide_pools(v);
    for (int i = v->op[0] == 'a'; i < 144; i += 2) add_pool_axes(v, i % 72, i / 72);
    for (int how = DENSE; how <= SCATTERED; how++)
        for (int past = 0; past < 2; past++) add_pool(v, (layout)how, past);
    time_pools(v);
}

/* --- pad and resample ---------------------------------------------------------------------------------------------- */

static void add_pad(case_visitor *v, eb_dtype dtype, layout how, int64_t mode) {
    test_case c;
    int64_t low[] = {0, 2, 3}, high[] = {0, 1, 2};
    case_begin(&c, "pad", 0, "dtype %d layout %d mode %ld", (int)dtype, (int)how, (long)mode);
    case_input(&c, dtype, how, 50, SHAPE(2, 4, 5));
    case_output(&c, dtype, DENSE, SHAPE(2, 7, 10));
    case_ints(&c, EB_INT_PAD_LOW, 3, low);
    case_ints(&c, EB_INT_PAD_HIGH, 3, high);
    c.node.n_ints = EB_INT_PAD_MODE + 1;
    c.ints[EB_INT_PAD_MODE] = mode;
    c.node.n_reals = 1;
    c.reals[EB_REAL_PAD_VALUE] = 3;
    visit_case(v, &c);
}

/* An index; -1: no tap, which is right. */
static void put_index(test_case *c, int64_t at, int64_t index) { ((int64_t *)c->data[1])[at] = index; }

static void add_resample(case_visitor *v, int axis, layout how, int64_t wrong) {
    test_case c;
    int64_t x[] = {4, 5, 6}, y[] = {4, 5, 6};
    y[axis] = 7;
    case_begin(&c, "resample", 1e-6, "axis %d layout %d wrong %ld", axis, (int)how, (long)wrong);
    case_input(&c, EB_F32, how, 1, 3, x);
    case_input(&c, EB_I64, DENSE, (double)x[axis], SHAPE(7, 3));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(7, 3));
    case_output(&c, EB_F32, DENSE, 3, y);
    case_edit(&c, put_index, 5, wrong);
    c.node.n_ints = 1;
    c.ints[EB_INT_RESAMPLE_AXIS] = axis;
    visit_case(v, &c);
}

/* Every seventh tap is none. */
static void drop_taps(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    const int64_t taps = c->operands[1].shape[0] * c->operands[1].shape[1];
    for (int64_t t = 0; t < taps; t += 7) {
        if (c->operands[1].dtype == EB_I64)
            ((int64_t *)c->data[1])[t] = -1;
        else
            ((int32_t *)c->data[1])[t] = -1;
    }
}

/* Nothing huge, whose sums would cancel to their rounding. */
static void put_nan_and_infinity(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    float *x = c->data[0];
    x[random_below(c->bytes[0] / 4)] = NAN, x[random_below(c->bytes[0] / 4)] = INFINITY;
}

/* Axes longer and shorter than vectors, rows that are no whole number of them; 0 to 5 taps, some of them none. */
static void add_resample_size(case_visitor *v, int i) {
    static const int64_t inner[] = {1, 1, 3, 16, 17, 40}, taps[] = {2, 4, 1, 2, 5, 0, 3};
    random_seed((uint64_t)i);
    int64_t outer = 1 + random_below(40), n = 1 + random_below(40), m = 1 + random_below(50), count = taps[i % 7];
    test_case c;
    case_begin(&c, "resample", 1e-6, "%ld x %ld to %ld x %ld, %ld taps, number %d", (long)outer, (long)n, (long)m,
               (long)inner[i % 6], (long)count, i);
    case_input(&c, EB_F32, DENSE, 1, SHAPE(outer, n, inner[i % 6]));
    case_input(&c, i % 2 ? EB_I64 : EB_I32, DENSE, (double)n, SHAPE(m, count));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(m, count));
    case_output(&c, EB_F32, DENSE, SHAPE(outer, m, inner[i % 6]));
    case_edit(&c, drop_taps, 0, 0);
    if (i % 3 == 0) case_edit(&c, put_nan_and_infinity, 0, 0);
    c.node.n_ints = 1;
    c.ints[EB_INT_RESAMPLE_AXIS] = 1;
    visit_case(v, &c);
}

/* The taps of an axis of n elements that becomes twice as long. */
static void put_taps(test_case *c, int64_t n, int64_t taps) {
    for (int64_t i = 0; i < 2 * n; i++)
        for (int64_t t = 0; t < taps; t++)
            ((int64_t *)c->data[1])[i * taps + t] = eb_max(0, eb_min(n - 1, (i - 1) / 2 + t + 1 - taps / 2));
}

/* The linear (2 taps) or cubic (4) interpolation of an axis to twice its length. */
static void make_resample(test_case *c, int axis, int taps, const int64_t *shape) {
    int64_t x[4], y[4], n = shape[axis];
    memcpy(x, shape, sizeof x), memcpy(y, shape, sizeof y);
    y[axis] = 2 * n;
    case_begin(c, "resample", 1e-6, "axis %d of %ld x %ld x %ld, %d taps", axis, (long)shape[1], (long)shape[2], (long)shape[3], taps);
    case_input(c, EB_F32, DENSE, 1, 4, x);
    case_input(c, EB_I64, DENSE, 1, SHAPE(2 * n, taps));
    case_input(c, EB_F32, DENSE, 1, SHAPE(2 * n, taps));
    case_output(c, EB_F32, DENSE, 4, y);
    case_edit(c, put_taps, n, taps);
    c->node.n_ints = 1;
    c->ints[EB_INT_RESAMPLE_AXIS] = axis;
}

static void make_pad(test_case *c, eb_dtype dtype, int64_t mode, int rank, const int64_t *shape, const int64_t *low, const int64_t *high) {
    int64_t y[EB_MAX_RANK];
    for (int a = 0; a < rank; a++) y[a] = low[a] + shape[a] + high[a];
    case_begin(c, "pad", 0, "%d axes, last %ld + %ld + %ld, dtype %d mode %ld", rank, (long)low[rank - 1], (long)shape[rank - 1],
               (long)high[rank - 1], (int)dtype, (long)mode);
    case_input(c, dtype, DENSE, 50, rank, shape);
    case_output(c, dtype, DENSE, rank, y);
    case_ints(c, EB_INT_PAD_LOW, rank, low);
    case_ints(c, EB_INT_PAD_HIGH, rank, high);
    c->node.n_ints = EB_INT_PAD_MODE + 1;
    c->ints[EB_INT_PAD_MODE] = mode;
    c->node.n_reals = 1;
    c->reals[EB_REAL_PAD_VALUE] = 3;
}

/* Every axis padded or not, elements of 1 to 8 bytes, several tiles. */
static void add_pad_size(case_visitor *v, int i) {
    static const eb_dtype dtypes[] = {EB_F32, EB_U8, EB_I64, EB_BF16, EB_BOOL, EB_F64, EB_I32};
    int64_t shape[4], low[4], high[4], mode = i % 4;
    int rank = 1 + i % 3 + i % 2, is_long = i % 9 == 8;
    random_seed((uint64_t)i);
    for (int a = 0; a < rank; a++) {
        shape[a] = 2 + random_below(a == 0 || is_long ? 6 : 20);
        low[a] = random_below(2) * random_below(shape[a]);
        high[a] = random_below(2) * random_below(shape[a]);
    }
    if (is_long) shape[rank - 1] = 9000;
    test_case c;
    make_pad(&c, dtypes[i % 7], mode, rank, shape, low, high);
    case_note(&c, "number %d", i);
    visit_case(v, &c);
}

void cases_resample(case_visitor *v) {
    static const int64_t last[] = {1, 56, 56, 64}, first[] = {1, 64, 56, 56};
    for (int how = DENSE; how <= SCATTERED; how++)
        for (int axis = 0; axis < 3; axis++) add_resample(v, axis, (layout)how, -1);
    add_resample(v, 1, DENSE, -2);
    add_resample(v, 2, DENSE, 6);
    add_resample(v, 1, DENSE, 5);
    for (int i = 0; i < 84; i++) add_resample_size(v, i);
    for (int taps = 2; taps <= 4; taps += 2)
        for (int axis = 1; axis <= 3; axis++) { /* axes 1 and 2: channels last; 3: the model's order */
            const int64_t *shape = axis == 3 ? first : last;
            test_case c;
            make_resample(&c, axis, taps, shape);
            case_timed(&c, 2.0 * 2 * 56 * 56 * 64 * taps, "axis %d of %ld x %ld x %ld, %d taps", axis, (long)shape[1], (long)shape[2],
                       (long)shape[3], taps);
            visit_case(v, &c);
        }
}

/* Images of every layout, blocks of points that are not full, groups of channels; `special`: input with NaN and huge numbers. */
static void add_grid_sample(case_visitor *v, int i, eb_dtype dtype, layout how, int special) {
    static const int64_t channels[] = {1, 3, 8, 140, 300}, rows[] = {1, 5, 16, 3, 130, 43};
    const int64_t mode = i % 3, padding = i / 3 % 3, C = channels[i % 5], N = 1 + i % 2, H = 1 + i % 7, W = 1 + i % 11;
    const int64_t R = rows[i % 6], M = 1 + i % 4;
    test_case c;
    case_begin(&c, "grid_sample", dtype == EB_F64 ? 1e-14 : 1e-6, "%ldx%ldx%ldx%ld at %ldx%ld, mode %ld padding %ld dtype %d layout %d special %d "
               "number %d", (long)N, (long)C, (long)H, (long)W, (long)R, (long)M, (long)mode, (long)padding, (int)dtype, (int)how, special, i);
    case_input(&c, dtype, how, 1, SHAPE(N, C, H, W));
    case_input(&c, dtype, how, 1.5, SHAPE(N, R, M, 2));
    case_output(&c, dtype, DENSE, SHAPE(N, C, R, M));
    if (special) case_specials(&c, special - 1);
    c.node.n_ints = 3;
    c.ints[EB_INT_GRID_SAMPLE_MODE] = mode;
    c.ints[EB_INT_GRID_SAMPLE_PADDING] = padding;
    c.ints[EB_INT_GRID_SAMPLE_ALIGN_CORNERS] = i / 9 % 2;
    visit_case(v, &c);
}

void cases_grid_sample(case_visitor *v) {
    static const eb_dtype dtypes[] = {EB_F32, EB_F64, EB_F32, EB_BF16};
    for (int i = 0; i < 90; i++) add_grid_sample(v, i, dtypes[i % 4], (layout)(i % 5 % 4), 0);
    for (int i = 0; i < 18; i++)
        for (int input = 1; input <= 2; input++) add_grid_sample(v, i, input == 2 && i % 2 ? EB_F64 : EB_F32, DENSE, input);
}

/* One pixel around pictures, in every mode. */
static void time_pads(case_visitor *v) {
    static const int64_t last[] = {1, 56, 56, 64}, first[] = {1, 64, 56, 56}, around_last[] = {0, 1, 1, 0}, around_first[] = {0, 0, 1, 1};
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    for (int64_t mode = EB_PAD_MODE_CONSTANT; mode <= EB_PAD_MODE_CIRCULAR; mode++)
        for (int is_last = 0; is_last < 2; is_last++) {
            const int64_t *around = is_last ? around_last : around_first;
            test_case c;
            make_pad(&c, EB_F32, mode, 4, is_last ? last : first, around, around);
            case_timed(&c, 0, "56 x 56 x 64, %s%s", modes[mode], is_last ? ", channels last" : "");
            visit_case(v, &c);
        }
}

void cases_pad(case_visitor *v) {
    for (int how = DENSE; how <= SCATTERED; how++)
        for (int64_t mode = EB_PAD_MODE_CONSTANT; mode <= EB_PAD_MODE_CIRCULAR; mode++) {
            add_pad(v, EB_F32, (layout)how, mode);
            add_pad(v, EB_U8, (layout)how, mode);
        }
    for (int i = 0; i < 72; i++) add_pad_size(v, i);
    time_pads(v);
}
