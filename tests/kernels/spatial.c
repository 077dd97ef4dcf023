/* conv, conv_transpose, pooling, pad and resample: one to three spatial axes, groups, uneven padding, every epilogue. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iterate.h"
#include "suite.h"

/* Rounding of a sum of `terms` products of numbers below 1 (see sum_tolerance in linear.c), and of an epilogue. */
static double tolerance_of(int64_t terms) { return 1.2e-7 * (12 + 0.42 * (double)terms); }

void set_conv(test_case *c, const conv_shape *s) {
    c->node.n_ints = EB_INT_CONV_CHANNELS_LAST + 1;
    case_ints(c, EB_INT_CONV_STRIDE, s->axes, s->stride);
    case_ints(c, EB_INT_CONV_LOW, s->axes, s->low);
    case_ints(c, EB_INT_CONV_HIGH, s->axes, s->high);
    case_ints(c, EB_INT_CONV_DILATION, s->axes, s->dilation);
    c->ints[EB_INT_CONV_GROUPS] = s->groups;
}

/* [N, C, *S] as [N, *S, C] */
void move_channels(int64_t *shape, int axes) {
    int64_t channels = shape[1];
    for (int a = 0; a < axes; a++) shape[1 + a] = shape[2 + a];
    shape[1 + axes] = channels;
}

void make_conv(test_case *c, const conv_shape *s) {
    int64_t x[5] = {s->N, s->C}, weight[5] = {s->O, s->C / s->groups}, y[5] = {s->N, s->O}, terms = s->C / s->groups;
    for (int a = 0; a < s->axes; a++) {
        x[2 + a] = s->in[a];
        weight[2 + a] = s->kernel[a];
        terms *= s->kernel[a];
        int64_t reach = s->dilation[a] * (s->kernel[a] - 1) + 1;
        y[2 + a] = (s->in[a] + s->low[a] + s->high[a] - reach) / s->stride[a] + 1;
    }
    if (s->channels_last) move_channels(x, s->axes), move_channels(y, s->axes);
    case_begin(c, "conv", tolerance_of(terms),
               "%s%ld x %ld -> %ld, %d axes, last in %ld kernel %ld stride %ld, groups %ld layout %d activation %ld",
               s->channels_last ? "channels last, " : "", (long)s->N, (long)s->C, (long)s->O, s->axes, (long)s->in[s->axes - 1], (long)s->kernel[s->axes - 1],
               (long)s->stride[s->axes - 1], (long)s->groups, (int)s->how, (long)s->activation);
    case_input(c, EB_F32, s->how, 1, 2 + s->axes, x);
    case_input(c, EB_F32, DENSE, 1, 2 + s->axes, weight);
    if (s->bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(s->O));
    else
        case_absent(c);
    if (s->residual)
        case_input(c, EB_F32, s->how, 1, 2 + s->axes, y);
    else
        case_absent(c);
    case_output(c, EB_F32, DENSE, 2 + s->axes, y);
    set_conv(c, s);
    c->ints[EB_INT_CONV_ACTIVATION] = s->activation;
    c->ints[EB_INT_CONV_CHANNELS_LAST] = s->channels_last;
    c->constant = 2;
}

/* One to three axes: lengths about a micro-tile's, every kind of edge, epilogues. */
static void check_axes(int i, int channels_last) {
    static const int64_t lengths[] = {1, 2, 5, 13, 14, 15, 29, 60}, channels[] = {1, 3, 16, 17, 33};
    conv_shape s = {.N = 1 + i % 2, .C = channels[i % 5], .O = channels[i / 5 % 5], .groups = 1, .axes = 1 + i % 3,
                    .activation = i % (EB_CONV_ACTIVATION_RELU6 + 1), .bias = i % 3 != 0, .residual = i % 4 == 1,
                    .channels_last = channels_last, .how = i % 7 == 6 ? SWAPPED : DENSE};
    for (int a = 0; a < s.axes; a++) {
        s.in[a] = s.axes == 1 ? lengths[random_below(8)] : 1 + random_below(s.axes == 2 ? 16 : 7);
        s.kernel[a] = 1 + random_below(3), s.stride[a] = 1 + random_below(3), s.dilation[a] = 1 + random_below(2);
        s.low[a] = random_below(3), s.high[a] = s.low[a] + s.dilation[a] * (s.kernel[a] - 1);
        if (i % 4 == 3) s.low[a] = s.high[a] = 0, s.in[a] += s.dilation[a] * (s.kernel[a] - 1);
    }
    test_case c;
    make_conv(&c, &s);
    case_check(&c);
}

/* Signals and volumes of groups: every channel alone, groups of several, more results than channels. */
static void check_groups(int i, int axes, int channels_last) {
    static const int64_t groups[][3] = {{17, 1, 1}, {64, 1, 1}, {3, 1, 1}, {5, 4, 4}, {2, 16, 16}, {6, 1, 2}, {2, 7, 12}, {1, 5, 9}};
    const int64_t *v = groups[i % 8];
    conv_shape s = {.N = 1 + i % 2, .C = v[0] * v[1], .O = v[0] * v[2], .groups = v[0], .axes = axes, .bias = i % 3 != 0,
                    .residual = i % 4 == 1, .activation = i % (EB_CONV_ACTIVATION_RELU6 + 1),
                    .channels_last = channels_last, .how = i % 7 == 6 ? SWAPPED : DENSE};
    for (int a = 0; a < axes; a++) {
        s.in[a] = 1 + random_below(axes == 1 ? 40 : 7), s.kernel[a] = 1 + random_below(axes == 1 ? 7 : 4);
        s.stride[a] = 1 + random_below(3), s.dilation[a] = 1 + random_below(2), s.low[a] = random_below(4);
        s.high[a] = s.low[a] + s.dilation[a] * (s.kernel[a] - 1);
    }
    test_case c;
    make_conv(&c, &s);
    case_check(&c);
}

/* Channels first: blocks of k and shared out channels, several panels a tile, nothing; what is not finite, in place. */
static void check_channels_first(void) {
    static const conv_shape shapes[] = {
        {.N = 1, .C = 130, .O = 150, .groups = 1, .axes = 2, .in = {6, 7}, .kernel = {3, 3}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1},
        {.N = 2, .C = 4, .O = 6, .groups = 2, .axes = 2, .in = {60, 50}, .kernel = {3, 3}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1, .activation = EB_CONV_ACTIVATION_GELU},
        {.N = 0, .C = 4, .O = 5, .groups = 1, .axes = 1, .in = {3}, .kernel = {2}, .stride = {2}, .dilation = {1}},
        {.N = 1, .C = 5, .O = 20, .groups = 1, .axes = 2, .in = {8, 9}, .kernel = {3, 3}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1, .residual = 1},
    };
    test_case c;
    for (int i = 0; i < 4; i++) {
        make_conv(&c, &shapes[i]);
        case_check(&c);
    }
    for (int input = 0; input < 4; input++) {
        make_conv(&c, &shapes[3]);
        case_specials(&c, input);
        if (input == 3) c.in_place = 3;
        case_check(&c);
    }
}

void make_conv_transpose(test_case *c, const conv_shape *s) {
    int64_t x[5] = {s->N, s->C}, weight[5] = {s->C, s->O / s->groups}, y[5] = {s->N, s->O}, terms = s->C / s->groups;
    for (int a = 0; a < s->axes; a++) {
        x[2 + a] = s->in[a];
        weight[2 + a] = s->kernel[a];
        terms *= (s->kernel[a] - 1) / s->stride[a] + 1;
        y[2 + a] = (s->in[a] - 1) * s->stride[a] + s->dilation[a] * (s->kernel[a] - 1) + 1 - s->low[a] - s->high[a];
    }
    if (s->channels_last) move_channels(x, s->axes), move_channels(y, s->axes);
    case_begin(c, "conv_transpose", tolerance_of(terms),
               "%s%ld x %ld -> %ld, %d axes, last in %ld kernel %ld stride %ld, groups %ld layout %d activation %ld",
               s->channels_last ? "channels last, " : "", (long)s->N, (long)s->C, (long)s->O, s->axes,
               (long)s->in[s->axes - 1], (long)s->kernel[s->axes - 1], (long)s->stride[s->axes - 1], (long)s->groups,
               (int)s->how, (long)s->activation);
    case_input(c, EB_F32, s->how, 1, 2 + s->axes, x);
    case_input(c, EB_F32, DENSE, 1, 2 + s->axes, weight);
    if (s->bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(s->O));
    else
        case_absent(c);
    if (s->residual)
        case_input(c, EB_F32, s->how, 1, 2 + s->axes, y);
    else
        case_absent(c);
    case_output(c, EB_F32, DENSE, 2 + s->axes, y);
    set_conv(c, s);
    c->ints[EB_INT_CONV_TRANSPOSE_ACTIVATION] = s->activation;
    c->ints[EB_INT_CONV_TRANSPOSE_CHANNELS_LAST] = s->channels_last;
    c->constant = 2;
}

static void check_conv_transpose(const conv_shape *s) {
    test_case c;
    make_conv_transpose(&c, s);
    case_check(&c);
}

/* Channels last: kernels shorter and longer than the stride, dilations with and without a common factor with it, places
 * that are cut off and places that no tap reaches, groups, parts of panels, epilogues. */
static void check_transposed_channels_last(int i) {
    static const int64_t channels[][3] = {{1, 3, 5},  {1, 16, 33}, {1, 17, 32}, {1, 5, 64}, {2, 4, 6},
                                          {3, 1, 1},  {2, 5, 40},  {1, 33, 15}, {4, 8, 8},  {1, 1, 70}};
    const int64_t *v = channels[i % 10];
    conv_shape s = {.N = 1 + i % 2, .C = v[0] * v[1], .O = v[0] * v[2], .groups = v[0], .axes = 1 + i % 3,
                    .activation = i % (EB_CONV_TRANSPOSE_ACTIVATION_RELU6 + 1), .bias = i % 3 != 0,
                    .residual = i % 4 == 1, .channels_last = 1, .how = i % 7 == 6 ? SWAPPED : DENSE};
    for (int a = 0; a < s.axes; a++) {
        s.in[a] = 1 + random_below(s.axes == 1 ? 60 : s.axes == 2 ? 18 : 5);
        s.kernel[a] = 1 + random_below(5), s.stride[a] = 1 + random_below(4);
        s.dilation[a] = i % 5 == 4 ? 1 + random_below(4) : 1;
        int64_t whole = (s.in[a] - 1) * s.stride[a] + s.dilation[a] * (s.kernel[a] - 1) + 1;
        s.low[a] = random_below(eb_min(whole, 4));
        s.high[a] = random_below(eb_min(whole - s.low[a], 4)) - random_below(5); /* one place at least is left */
    }
    test_case c;
    make_conv_transpose(&c, &s);
    if (i % 8 == 5) case_specials(&c, 0), case_specials(&c, 1);
    if (s.residual && s.how == DENSE && i % 8 != 5) c.in_place = 3;
    case_check(&c);
}

/* Windows of 3 by 2, two steps apart, one element of padding in front of the last axis; `past`: with one more window. */
static void check_pool(int mean, layout how, int past) {
    test_case c;
    int64_t kernel[] = {3, 2}, stride[] = {2, 2}, low[] = {0, 1}, high[] = {0, 0}, dilation[] = {1, 1};
    case_begin(&c, mean ? "avg_pool" : "max_pool", 1e-6, "layout %d past %d", (int)how, past);
    case_input(&c, EB_F32, how, 1, SHAPE(2, 3, 8, 9));
    case_output(&c, EB_F32, DENSE, SHAPE(2, 3, 3 + past, 5));
    case_ints(&c, EB_INT_MAX_POOL_KERNEL, 2, kernel);
    case_ints(&c, EB_INT_MAX_POOL_STRIDE, 2, stride);
    case_ints(&c, EB_INT_MAX_POOL_LOW, 2, low);
    case_ints(&c, EB_INT_MAX_POOL_HIGH, 2, high);
    if (mean) {
        c.node.n_ints = EB_INT_AVG_POOL_CHANNELS_LAST + 1;
        c.ints[EB_INT_AVG_POOL_CEIL_MODE] = past;
        c.ints[EB_INT_AVG_POOL_COUNT_PADDING] = !past;
        c.ints[EB_INT_AVG_POOL_DIVISOR] = 0;
    } else {
        c.node.n_ints = EB_INT_MAX_POOL_CHANNELS_LAST + 1;
        case_ints(&c, EB_INT_MAX_POOL_DILATION, 2, dilation);
        c.ints[EB_INT_MAX_POOL_CEIL_MODE] = past;
        case_specials(&c, 0);
    }
    case_check(&c);
}

/* One to three axes, every attribute; windows that reach past either end. */
static void check_pool_axes(int i, int channels_last) {
    static const int64_t channels[] = {1, 3, 16, 17, 40};
    const int mean = i % 2, axes = 1 + i / 2 % 3, past = i % 5 == 4, last = axes + 1;
    int64_t x[5] = {1 + i % 3 / 2}, y[5] = {1 + i % 3 / 2}, kernel[3], stride[3], low[3], high[3], dilation[3];
    for (int a = 0; a < axes; a++) {
        x[1 + a] = 4 + random_below(axes == 1 ? 40 : 6);
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
    case_begin(&c, mean ? "avg_pool" : "max_pool", mean ? 1e-6 : 0, "channels last %d, %d axes, past %d, number %d",
               channels_last, axes, past, i);
    case_input(&c, EB_F32, i % 7 == 6 ? SWAPPED : i % 7 == 5 && !channels_last ? SCATTERED : DENSE, 1, last + 1, x);
    case_output(&c, EB_F32, DENSE, last + 1, y);
    case_ints(&c, EB_INT_MAX_POOL_KERNEL, axes, kernel);
    case_ints(&c, EB_INT_MAX_POOL_STRIDE, axes, stride);
    case_ints(&c, EB_INT_MAX_POOL_LOW, axes, low);
    case_ints(&c, EB_INT_MAX_POOL_HIGH, axes, high);
    c.ints[mean ? EB_INT_AVG_POOL_CEIL_MODE : EB_INT_MAX_POOL_CEIL_MODE] = past;
    c.ints[mean ? EB_INT_AVG_POOL_CHANNELS_LAST : EB_INT_MAX_POOL_CHANNELS_LAST] = channels_last;
    c.node.n_ints = (mean ? EB_INT_AVG_POOL_CHANNELS_LAST : EB_INT_MAX_POOL_CHANNELS_LAST) + 1;
    if (mean)
        c.ints[EB_INT_AVG_POOL_COUNT_PADDING] = i % 3 == 0, c.ints[EB_INT_AVG_POOL_DIVISOR] = i % 9 == 1 ? 5 : 0;
    else
        case_ints(&c, EB_INT_MAX_POOL_DILATION, axes, dilation), case_specials(&c, 0);
    case_check(&c);
}

static void check_pad(eb_dtype dtype, layout how, int64_t mode) {
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
    case_check(&c);
}

static void check_resample(int axis, layout how, int64_t wrong) {
    test_case c;
    int64_t x[] = {4, 5, 6}, y[] = {4, 5, 6};
    y[axis] = 7;
    case_begin(&c, "resample", 1e-6, "axis %d layout %d wrong %ld", axis, (int)how, (long)wrong);
    case_input(&c, EB_F32, how, 1, 3, x);
    case_input(&c, EB_I64, DENSE, (double)x[axis], SHAPE(7, 3));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(7, 3));
    case_output(&c, EB_F32, DENSE, 3, y);
    ((int64_t *)c.data[1])[5] = wrong; /* -1: no tap, which is right */
    c.node.n_ints = 1;
    c.ints[EB_INT_RESAMPLE_AXIS] = axis;
    case_check(&c);
}

/* Axes longer and shorter than vectors, rows that are no whole number of them; 0 to 5 taps, some of them none. */
static void check_resample_size(int i) {
    static const int64_t inner[] = {1, 1, 3, 16, 17, 40}, taps[] = {2, 4, 1, 2, 5, 0, 3};
    int64_t outer = 1 + random_below(40), n = 1 + random_below(40), m = 1 + random_below(50), count = taps[i % 7];
    test_case c;
    case_begin(&c, "resample", 1e-6, "%ld x %ld to %ld x %ld, %ld taps", (long)outer, (long)n, (long)m, (long)inner[i % 6],
               (long)count);
    case_input(&c, EB_F32, DENSE, 1, SHAPE(outer, n, inner[i % 6]));
    case_input(&c, i % 2 ? EB_I64 : EB_I32, DENSE, (double)n, SHAPE(m, count));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(m, count));
    case_output(&c, EB_F32, DENSE, SHAPE(outer, m, inner[i % 6]));
    for (int64_t t = 0; t < m * count; t += 7) {
        if (i % 2)
            ((int64_t *)c.data[1])[t] = -1;
        else
            ((int32_t *)c.data[1])[t] = -1;
    }
    if (i % 3 == 0) { /* nothing huge, whose sums would cancel to their rounding */
        float *x = c.data[0];
        x[random_below(c.bytes[0] / 4)] = NAN, x[random_below(c.bytes[0] / 4)] = INFINITY;
    }
    c.node.n_ints = 1;
    c.ints[EB_INT_RESAMPLE_AXIS] = 1;
    case_check(&c);
}

/* The linear (2 taps) or cubic (4) interpolation of an axis to twice its length. */
void make_resample(test_case *c, int axis, int taps, const int64_t *shape) {
    int64_t x[4], y[4], n = shape[axis];
    memcpy(x, shape, sizeof x), memcpy(y, shape, sizeof y);
    y[axis] = 2 * n;
    case_begin(c, "resample", 1e-6, "axis %d of %ld x %ld x %ld, %d taps", axis, (long)shape[1], (long)shape[2], (long)shape[3], taps);
    case_input(c, EB_F32, DENSE, 1, 4, x);
    case_input(c, EB_I64, DENSE, 1, SHAPE(2 * n, taps));
    case_input(c, EB_F32, DENSE, 1, SHAPE(2 * n, taps));
    case_output(c, EB_F32, DENSE, 4, y);
    for (int64_t i = 0; i < 2 * n; i++)
        for (int64_t t = 0; t < taps; t++)
            ((int64_t *)c->data[1])[i * taps + t] = eb_max(0, eb_min(n - 1, (i - 1) / 2 + t + 1 - taps / 2));
    c->node.n_ints = 1;
    c->ints[EB_INT_RESAMPLE_AXIS] = axis;
}

void make_pad(test_case *c, eb_dtype dtype, int64_t mode, int rank, const int64_t *shape, const int64_t *low, const int64_t *high) {
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
static void check_pad_size(int i) {
    static const eb_dtype dtypes[] = {EB_F32, EB_U8, EB_I64, EB_BF16, EB_BOOL, EB_F64, EB_I32};
    int64_t shape[4], low[4], high[4], mode = i % 4;
    int rank = 1 + i % 3 + i % 2;
    for (int a = 0; a < rank; a++) {
        shape[a] = 2 + random_below(a ? 20 : 6);
        low[a] = random_below(2) * random_below(shape[a]);
        high[a] = random_below(2) * random_below(shape[a]);
    }
    if (i % 9 == 8) shape[rank - 1] = 9000;
    test_case c;
    make_pad(&c, dtypes[i % 7], mode, rank, shape, low, high);
    case_check(&c);
}

void test_spatial(void) {
    static const conv_shape shapes[] = {
        {.N = 2, .C = 3, .O = 8, .groups = 1, .axes = 2, .in = {11, 9}, .kernel = {7, 7}, .stride = {2, 2},
         .low = {3, 3}, .high = {3, 3}, .dilation = {1, 1}},
        {.N = 1, .C = 20, .O = 33, .groups = 1, .axes = 2, .in = {7, 9}, .kernel = {1, 1}, .stride = {1, 1},
         .dilation = {1, 1}},
        {.N = 2, .C = 17, .O = 18, .groups = 1, .axes = 2, .in = {8, 7}, .kernel = {3, 3}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}},
        {.N = 1, .C = 16, .O = 16, .groups = 16, .axes = 2, .in = {9, 8}, .kernel = {5, 3}, .stride = {2, 1},
         .low = {1, 0}, .high = {2, 2}, .dilation = {1, 2}},
        {.N = 2, .C = 6, .O = 4, .groups = 2, .axes = 2, .in = {6, 5}, .kernel = {2, 3}, .stride = {3, 2},
         .low = {0, 2}, .high = {1, 0}, .dilation = {2, 1}},
        {.N = 2, .C = 5, .O = 7, .groups = 1, .axes = 1, .in = {30}, .kernel = {4}, .stride = {1},
         .low = {1}, .high = {2}, .dilation = {1}},
        {.N = 1, .C = 3, .O = 4, .groups = 1, .axes = 3, .in = {3, 4, 5}, .kernel = {2, 3, 2}, .stride = {1, 2, 1},
         .low = {0, 1, 0}, .high = {1, 1, 0}, .dilation = {1, 1, 2}},
    };
    int64_t activation = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int how = DENSE; how <= SCATTERED; how++) {
            conv_shape s = shapes[i];
            s.how = (layout)how;
            s.bias = how % 2;
            s.residual = how / 2;
            s.activation = activation++ % (EB_CONV_ACTIVATION_RELU6 + 1);
            test_case c;
            make_conv(&c, &s);
            case_check(&c);
            if (s.O % s.groups == 0) check_conv_transpose(&s);
        }
    }
    for (int channels_last = 0; channels_last < 2; channels_last++) {
        for (int i = 0; i < 72; i++) check_axes(i, channels_last);
        for (int i = 0; i < 96; i++) check_groups(i, i < 48 ? 1 : 3, channels_last);
    }
    for (int i = 0; i < 160; i++) check_transposed_channels_last(i);
    static const conv_shape transposed[] = {
        /* blocks of rows, and tiles of panels; blocks of k; phases without taps; more phases than tiles are worth */
        {.N = 1, .C = 64, .O = 36, .groups = 1, .axes = 2, .in = {50, 40}, .kernel = {4, 4}, .stride = {2, 2},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1, .channels_last = 1},
        {.N = 1, .C = 520, .O = 150, .groups = 1, .axes = 2, .in = {4, 5}, .kernel = {3, 3}, .stride = {2, 2},
         .low = {1, 1}, .high = {0, 0}, .dilation = {1, 1}, .bias = 1, .residual = 1,
         .activation = EB_CONV_TRANSPOSE_ACTIVATION_GELU, .channels_last = 1},
        {.N = 0, .C = 4, .O = 5, .groups = 1, .axes = 1, .in = {3}, .kernel = {2}, .stride = {2}, .dilation = {1},
         .channels_last = 1},
        {.N = 1, .C = 3, .O = 3, .groups = 3, .axes = 2, .in = {5, 4}, .kernel = {16, 16}, .stride = {8, 8},
         .low = {4, 4}, .high = {4, 4}, .dilation = {1, 1}, .channels_last = 1},
    };
    for (size_t i = 0; i < sizeof transposed / sizeof *transposed; i++) check_conv_transpose(&transposed[i]);
    static const conv_shape large[] = {
        /* pixels 2 KiB apart, copied for that alone, as rows of the result are few; several tiles of panels on one copy */
        {.N = 1, .C = 256, .O = 130, .groups = 1, .axes = 2, .in = {6, 7}, .kernel = {1, 1}, .stride = {2, 2},
         .dilation = {1, 1}, .channels_last = 1},
        {.N = 1, .C = 512, .O = 70, .groups = 1, .axes = 2, .in = {5, 4}, .kernel = {3, 2}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 0}, .dilation = {1, 1}, .channels_last = 1},
        /* the same along one axis, whose places are one column: rows of the copy are not neighbours */
        {.N = 1, .C = 512, .O = 33, .groups = 1, .axes = 1, .in = {9}, .kernel = {3}, .stride = {2}, .low = {1},
         .high = {1}, .dilation = {1}, .channels_last = 1},
        /* blocks of rows along one axis, and of planes */
        {.N = 2, .C = 64, .O = 33, .groups = 1, .axes = 1, .in = {2500}, .kernel = {3}, .stride = {1}, .low = {1},
         .high = {1}, .dilation = {1}, .channels_last = 1},
        {.N = 1, .C = 24, .O = 17, .groups = 1, .axes = 3, .in = {4, 40, 30}, .kernel = {3, 3, 3}, .stride = {1, 1, 1},
         .low = {1, 1, 1}, .high = {1, 1, 1}, .dilation = {1, 1, 1}, .channels_last = 1},
    };
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        test_case c;
        make_conv(&c, &large[i]);
        case_check(&c);
    }
    check_channels_first();
    for (int i = 0; i < 144; i++) check_pool_axes(i % 72, i / 72);
    for (int how = DENSE; how <= SCATTERED; how++) {
        for (int mean = 0; mean < 2; mean++)
            for (int past = 0; past < 2; past++) check_pool(mean, (layout)how, past);
        for (int64_t mode = EB_PAD_MODE_CONSTANT; mode <= EB_PAD_MODE_CIRCULAR; mode++) {
            check_pad(EB_F32, (layout)how, mode);
            check_pad(EB_U8, (layout)how, mode);
        }
        for (int axis = 0; axis < 3; axis++) check_resample(axis, (layout)how, -1);
    }
    for (int i = 0; i < 84; i++) check_resample_size(i);
    for (int i = 0; i < 72; i++) check_pad_size(i);
    check_resample(1, DENSE, -2);
    check_resample(2, DENSE, 6);
    check_resample(1, DENSE, 5);
}
