/* Attributes and sizes at the ends of the ranges that the ops let through: plans of nodes that have no memory, cases that run,
 * and the arithmetic that plans use. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iterate.h"
#include "suite.h"

static const int64_t LARGEST = INT32_MAX; /* number of a list attribute */

/* --- checked.h ---------------------------------------------------------------------------------------------------- */

static void expect(const char *what, int64_t value, int64_t expected) {
    total.cases++;
    if (value != expected) fail("%s is %lld, not %lld", what, (long long)value, (long long)expected);
}
#define EXPECT(expression, expected) expect(#expression, expression, expected)

static void check_arithmetic(void) {
    EXPECT(eb_multiply(0, INT64_MAX), 0);
    EXPECT(eb_multiply(3, 5), 15);
    EXPECT(eb_multiply((int64_t)1 << 31, ((int64_t)1 << 31) - 1), ((int64_t)1 << 62) - ((int64_t)1 << 31));
    EXPECT(eb_multiply((int64_t)1 << 31, (int64_t)1 << 31), EB_SATURATED);
    EXPECT(eb_multiply((int64_t)1 << 32, (int64_t)1 << 32), EB_SATURATED);
    EXPECT(eb_multiply(INT64_MAX, INT64_MAX), EB_SATURATED);
    EXPECT(eb_add(3, 5), 8);
    EXPECT(eb_add(EB_SATURATED - 2, 1), EB_SATURATED - 1);
    EXPECT(eb_add(EB_SATURATED, EB_SATURATED), EB_SATURATED);
    EXPECT(eb_add(INT64_MAX, 1), EB_SATURATED);
    EXPECT(eb_ceil_div(EB_SATURATED, 64), EB_SATURATED / 64);
    EXPECT(EB_MULTIPLY(LARGEST, LARGEST, LARGEST, 4), EB_SATURATED);
    EXPECT(EB_MULTIPLY(LARGEST, LARGEST, LARGEST, 0), 0);
    EXPECT(EB_MULTIPLY(2, 3, 5, 7), 210);
    EXPECT(eb_is_proportionate(EB_PROPORTION_LEAST + 64 * 10, 10), 1);
    EXPECT(eb_is_proportionate(EB_PROPORTION_LEAST + 64 * 10 + 1, 10), 0);
    EXPECT(eb_is_proportionate(EB_SATURATED, EB_SATURATED), 0);
    EXPECT(eb_is_proportionate(EB_SATURATED - 1, EB_SATURATED), 1);
}

/* eb_clip against a look at each position. */
static void check_clip(void) {
    for (int64_t first = -7; first <= 7; first++)
        for (int64_t step = 1; step <= 4; step++)
            for (int64_t size = 0; size <= 5; size++)
                for (int64_t count = 0; count <= 5; count++) {
                    int64_t begin, end, inside = 0, least = -1;
                    for (int64_t i = count - 1; i >= 0; i--)
                        if (first + i * step >= 0 && first + i * step < size) inside++, least = i;
                    eb_clip(first, step, size, count, &begin, &end);
                    total.cases++;
                    if (end - begin != inside || (inside && begin != least) || begin < 0 || end > count)
                        fail("eb_clip(%ld, %ld, %ld, %ld) is [%ld, %ld)", (long)first, (long)step, (long)size, (long)count,
                             (long)begin, (long)end);
                }
}

/* --- plans of nodes without memory -------------------------------------------------------------------------------- */

/* A dense operand of any size. Answers whether it is one that a program may have: of less than 2^48 bytes. */
static int describe(test_case *c, int is_output, eb_dtype dtype, int rank, const int64_t *shape) {
    int i = c->node.n_inputs + c->node.n_outputs;
    eb_tensor *t = &c->operands[i];
    *t = (eb_tensor){.buffer = i, .dtype = (int32_t)dtype, .rank = rank};
    double bytes = (double)eb_element_size(t->dtype);
    for (int axis = 0; axis < rank; axis++) bytes *= (double)eb_max(1, t->shape[axis] = shape[axis]);
    if (bytes >= 0x1p48) return 0;
    for (int64_t axis = rank - 1, step = 1; axis >= 0; step *= eb_max(1, shape[axis--])) t->stride[axis] = step;
    *(is_output ? &c->node.n_outputs : &c->node.n_inputs) += 1;
    return 1;
}
#define INPUT(...) describe(&c, 0, EB_F32, SHAPE(__VA_ARGS__))
#define OUTPUT(...) describe(&c, 1, EB_F32, SHAPE(__VA_ARGS__))

static int in_range(int64_t value, int64_t limit) { return value >= 0 && value < limit; }

/* What every plan keeps, whichever kernel makes it. Answers the kernels that take the node. */
static int check_plan(const test_case *c) {
    int taken = 0;
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        const eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.op, c->op) != 0 || !runs_here(k)) continue;
        eb_tensor operands[MOST_OPERANDS];
        eb_node node = c->node;
        memcpy(operands, c->operands, sizeof operands);
        node.kernel = k, node.wanted = 1, node.operands = operands, node.ints = (int64_t *)c->ints, node.reals = (double *)c->reals;
        for (int i = 0; i < node.n_inputs; i++) {
            const int64_t bytes = c->constant >> i & 1 ? eb_layout_of(&node, i).bytes : 0;
            const int64_t plain = operands[i].dtype < 0 ? 0 : tensor_bytes(&operands[i]);
            if (bytes < 0 || bytes > EB_PROPORTION * plain + EB_PROPORTION_LEAST) fail("%s by %s: packs %lld bytes", c->name, info.name, (long long)bytes);
            operands[i].is_packed = bytes > 0;
        }
        const eb_status status = eb_plan_node(&node);
        taken += status == EB_OK;
        total.runs++;
        const int fits = in_range(node.tiles, EB_MOST_TILES) && in_range(node.joins, EB_MOST_TILES) &&
                         in_range(node.scratch_bytes, EB_MOST_BYTES / EB_MOST_THREADS + 64) &&
                         in_range(node.shared_bytes, EB_MOST_BYTES) && in_range(node.operations, EB_SATURATED);
        const int is_clear = !node.tiles && !node.joins && !node.scratch_bytes && !node.shared_bytes && !node.operations;
        if (!fits || (status != EB_OK && !is_clear))
            fail("%s by %s: status %d, tiles %lld + %lld, scratch %lld, shared %lld, operations %lld", c->name, info.name,
                 (int)status, (long long)node.tiles, (long long)node.joins, (long long)node.scratch_bytes,
                 (long long)node.shared_bytes, (long long)node.operations);
    }
    total.cases++;
    return taken;
}

static int64_t pick(const int64_t *of, int64_t count) { return of[random_below(count)]; }
#define PICK(...) pick((const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / 8)

/* A convolution at the ends of its attributes. `large`: its operands have sizes that are never allocated. Answers whether
 * the op's rule accepts it. */
static int draw_conv(conv_shape *s, int is_transposed, int large) {
    const int64_t wide = large ? (int64_t)1 << 33 : 5;
    *s = (conv_shape){.N = PICK(1, 1, 2, large ? 1 << 20 : 1), .C = PICK(1, 2, 4, large ? 1 << 20 : 6),
                      .axes = 1 + (int)random_below(3), .channels_last = (int)random_below(4) != 0, .bias = (int)random_below(2)};
    s->groups = PICK(1, 1, 2, s->C);
    if (s->C % s->groups) s->groups = 1;
    s->O = s->groups * PICK(1, 1, 3, large ? 1 << 20 : 33);
    s->activation = random_below(EB_ACTIVATION_RELU6 + 1);
    double places = (double)(s->N * s->O), image = 4.0 * (double)s->N * (double)(s->C + s->O);
    for (int a = 0; a < s->axes; a++) {
        s->in[a] = PICK(1, 1, 2, 3, wide), s->kernel[a] = PICK(1, 1, 2, 3, large ? 1 << 10 : 2);
        s->stride[a] = PICK(1, 1, 2, 1 << 22, LARGEST), s->dilation[a] = PICK(1, 1, 3, 1 << 20, LARGEST);
        s->low[a] = PICK(0, 0, 1, s->dilation[a], LARGEST - 1), s->high[a] = PICK(0, 1, s->dilation[a] - 1, LARGEST);
        const int64_t reach = s->dilation[a] * (s->kernel[a] - 1) + 1;
        int64_t out = (s->in[a] + s->low[a] + s->high[a] - reach) / s->stride[a] + 1;
        if (s->in[a] + s->low[a] + s->high[a] < reach) return 0;
        double length = (double)(s->in[a] + s->high[a]);
        if (is_transposed) { /* what is left is as short as it can be, or has places that no tap reaches */
            out = eb_add(eb_multiply(s->in[a] - 1, s->stride[a]), reach);
            length = (double)out;
            s->low[a] = random_below(2) ? 0 : eb_min(out - 1, LARGEST);
            s->high[a] = random_below(3) ? eb_min(out - s->low[a] - 1, LARGEST) : -PICK(0, 2, large ? LARGEST : 5);
            out -= s->low[a] + s->high[a];
            length += (double)out;
        }
        places *= (double)out;
        image *= length + (double)(s->low[a] + s->stride[a] + s->dilation[a]);
    }
    return image < 0x1p48 && places < (large ? 0x1p46 : 5000);
}

static int plan_conv(const conv_shape *s, int is_transposed) {
    int64_t x[5] = {s->N, s->C}, y[5] = {s->N, s->O}, weight[5] = {s->O, s->C / s->groups};
    if (is_transposed) weight[0] = s->C, weight[1] = s->O / s->groups;
    test_case c;
    case_begin(&c, is_transposed ? "conv_transpose" : "conv", 0, "plan of %d axes, in %ld kernel %ld stride %ld dilation %ld low %ld high %ld",
               s->axes, (long)s->in[0], (long)s->kernel[0], (long)s->stride[0], (long)s->dilation[0], (long)s->low[0], (long)s->high[0]);
    for (int a = 0; a < s->axes; a++) {
        const int64_t reach = s->dilation[a] * (s->kernel[a] - 1) + 1;
        x[2 + a] = s->in[a], weight[2 + a] = s->kernel[a];
        y[2 + a] = is_transposed ? (s->in[a] - 1) * s->stride[a] + reach - s->low[a] - s->high[a]
                                 : (s->in[a] + s->low[a] + s->high[a] - reach) / s->stride[a] + 1;
    }
    if (s->channels_last) move_channels(x, s->axes), move_channels(y, s->axes);
    const int rank = 2 + s->axes;
    if (!describe(&c, 0, EB_F32, rank, x) || !describe(&c, 0, EB_F32, rank, weight)) return 0;
    case_absent(&c), case_absent(&c);
    if (!describe(&c, 1, EB_F32, rank, y)) return 0;
    set_conv(&c, s);
    c.ints[EB_INT_CONV_CHANNELS_LAST] = s->channels_last;
    c.constant = 2;
    return check_plan(&c) > 0;
}

enum { DRAWS = 6000, LEAST = 300 };

/* Seeded by its number, so that the list of cases is the same whoever walks it. */
static int draw_numbered_conv(conv_shape *s, int number, int is_transposed, int large) {
    random_seed((uint64_t)(number + DRAWS * (2 * is_transposed + large)));
    return draw_conv(s, is_transposed, large);
}

static void check_enough(int taken, int is_transposed, int large) {
    if (taken < LEAST) fail("only %d of %d convolutions, transposed %d, large %d", taken, DRAWS, is_transposed, large);
}

static void check_large_convolutions(int is_transposed) {
    int taken = 0;
    conv_shape s;
    for (int i = 0; i < DRAWS; i++)
        if (draw_numbered_conv(&s, i, is_transposed, 1)) taken += plan_conv(&s, is_transposed);
    check_enough(taken, is_transposed, 1);
}

void add_extreme_convolutions(case_visitor *v, int is_transposed) {
    int taken = 0;
    conv_shape s;
    for (int i = 0; i < DRAWS; i++) {
        if (!draw_numbered_conv(&s, i, is_transposed, 0)) continue;
        test_case c;
        (is_transposed ? make_conv_transpose : make_conv)(&c, &s);
        case_note(&c, "extreme %d", i);
        visit_case(v, &c);
        taken++;
    }
    check_enough(taken, is_transposed, 0);
}
/* --- cases whose results are known -------------------------------------------------------------------------------- */

/* Every kernel that takes the case, the reference among them, gives these numbers. Frees the case. */
static void check_values(test_case *c, const double *expected) {
    const int y = c->node.n_inputs;
    int taken = 0;
    total.cases++;
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        const eb_kernel_info info = eb_kernel_describe(k);
        eb_status status = EB_OK;
        float *value = strcmp(info.op, c->op) == 0 && runs_here(k) ? (float *)case_run(c, k, 1, &status) : NULL;
        if (!value) continue;
        taken++;
        for (int64_t i = 0; i < c->bytes[y] / 4; i++)
            if (status != EB_OK || fabs(value[i] - expected[i]) > 1e-6 * fabs(expected[i]))
                fail("%s by %s: status %d, element %ld is %.9g, not %.9g", c->name, info.name, (int)status, (long)i, value[i],
                     expected[i]);
        free(value);
    }
    total.runs += taken;
    if (!taken) fail("%s: no kernel takes it", c->name);
    case_end(c);
}

static int takes(const test_case *c, const char *variant) {
    int taken = 0;
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        const eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.op, c->op) != 0 || strcmp(info.variant, variant) != 0 || !runs_here(k)) continue;
        prepared p;
        taken += case_prepare(c, k, 1, &p) == EB_OK;
        prepared_free(&p);
    }
    return taken;
}

/* One place of x, one of the result and a kernel of two taps whose last one alone lies on x, since taps are as far apart as x
 * is from the padding's beginning. */
static void check_far_taps(void) {
    const conv_shape s = {.N = 1, .C = 4, .O = 1, .groups = 1, .axes = 2, .in = {1, 1}, .kernel = {1, 2}, .stride = {1, 1},
                          .low = {0, LARGEST}, .dilation = {1, LARGEST}, .channels_last = 1};
    test_case c;
    make_conv(&c, &s);
    case_fill(&c);
    const float *x = c.data[0], *weight = c.data[1];
    double sum = 0;
    for (int i = 0; i < 4; i++) sum += (double)x[i] * weight[2 * i + 1];
    if (takes(&c, "direct")) fail("conv by direct copies 2^31 places of padding");
    check_values(&c, &sum);
    conv_shape alone = s;
    alone.O = alone.groups = 4;
    make_conv(&c, &alone);
    case_fill(&c);
    double products[4];
    for (int i = 0; i < 4; i++) products[i] = (double)((float *)c.data[0])[i] * ((float *)c.data[1])[2 * i + 1];
    if (takes(&c, "depthwise")) fail("conv by depthwise computes addresses 2^33 bytes in front of x");
    check_values(&c, products);
    const image_shape expand = {.N = 1, .H = 1, .W = 1, .C = 1, .O = 1, .kernel_h = 1, .kernel_w = 2, .stride = 1,
                                .dilation = 1 << 20, .low_w = 1 << 20};
    make_expand_depthwise(&c, &expand, EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_NONE);
    case_fill(&c);
    const double product = (double)((float *)c.data[0])[0] * ((float *)c.data[1])[0] * ((float *)c.data[3])[1];
    check_values(&c, &product);
}

/* Windows over 3 elements of each of three axes, three windows an axis: of one element, but along the last axis of `kernel`,
 * with `pad` before and behind. */
static void make_pool(test_case *c, int mean, int channels_last, int64_t kernel, int64_t dilation, int64_t pad) {
    int64_t x[] = {1, 3, 3, 3, 3};
    const int64_t pads[] = {0, 0, pad};
    case_begin(c, mean ? "avg_pool" : "max_pool", 0, "kernel %ld dilation %ld, channels last %d", (long)kernel, (long)dilation,
               channels_last);
    case_input(c, EB_F32, DENSE, 1, 5, x);
    case_output(c, EB_F32, DENSE, 5, x);
    case_ints(c, EB_INT_POOL_KERNEL, 3, (int64_t[]){1, 1, kernel});
    case_ints(c, EB_INT_POOL_STRIDE, 3, (int64_t[]){1, 1, 1});
    case_ints(c, EB_INT_POOL_LOW, 3, pads);
    case_ints(c, EB_INT_POOL_HIGH, 3, pads);
    if (!mean) case_ints(c, EB_INT_MAX_POOL_DILATION, 3, (int64_t[]){1, 1, dilation});
    c->ints[EB_INT_POOL_CHANNELS_LAST] = channels_last;
    c->node.n_ints = (mean ? EB_INT_AVG_POOL_DIVISOR : EB_INT_MAX_POOL_CEIL_MODE) + 1;
}

enum { POOLED = 81, POOLED_LINES = 27 };
static int line_of(int i, int channels_last) { return channels_last ? i / 9 * 3 + i % 3 : i / 3; }

/* Axes of size 1 whose stride, which leads nowhere, is as long as a view can make it: nothing may be multiplied by it. */
static void check_far_strides(void) {
    const conv_shape s = {.N = 1, .C = 2, .O = 1, .groups = 1, .axes = 2, .in = {1, 1}, .kernel = {1, 2}, .stride = {1, LARGEST},
                          .low = {0, LARGEST}, .dilation = {1, LARGEST}};
    test_case c;
    for (int is_transposed = 0; is_transposed < 2; is_transposed++) {
        (is_transposed ? make_conv_transpose : make_conv)(&c, &s);
        case_fill(&c);
        c.operands[0].stride[2] = c.operands[0].stride[3] = (int64_t)1 << 45;
        const float *x = c.data[0], *weight = c.data[1];
        const double sum = (double)x[0] * weight[1] + (double)x[1] * weight[3]; /* the last tap alone lies on x */
        check_values(&c, &sum);
    }
    make_pool(&c, 0, 0, 3, LARGEST, LARGEST);
    case_fill(&c);
    double expected[POOLED];
    c.operands[0].shape[2] = c.operands[0].shape[4] = c.operands[1].shape[2] = c.operands[1].shape[4] = 1;
    c.operands[0].stride[2] = c.operands[0].stride[4] = (int64_t)1 << 45;
    c.operands[1].stride[0] = 9, c.operands[1].stride[1] = 3, c.operands[1].stride[3] = 1;
    c.bytes[1] = 9 * 4;
    c.ints[EB_INT_POOL_STRIDE + 2] = LARGEST;
    for (int i = 0; i < 9; i++) expected[i] = ((float *)c.data[0])[i / 3 * 27 + i % 3 * 3];
    check_values(&c, expected);
}

/* Phases by the billion, all but one without places. */
static void check_far_phases(void) {
    const conv_shape s = {.N = 1, .C = 1, .O = 1, .groups = 1, .axes = 1, .in = {1}, .kernel = {1}, .stride = {LARGEST},
                          .dilation = {LARGEST}, .channels_last = 1};
    test_case c;
    make_conv_transpose(&c, &s);
    case_fill(&c);
    const double product = (double)((float *)c.data[0])[0] * ((float *)c.data[1])[0];
    if (takes(&c, "phases")) fail("conv_transpose by phases visits %ld of them", (long)LARGEST);
    check_values(&c, &product);
}

/* Windows that all cover a line of x. Padding counts in the mean, so x is made large. */
static void check_wide_means(int channels_last) {
    for (int divides = 0; divides < 2; divides++) {
        test_case c;
        make_pool(&c, 1, channels_last, LARGEST, 1, LARGEST / 2);
        case_fill(&c);
        c.ints[divides ? EB_INT_AVG_POOL_DIVISOR : EB_INT_AVG_POOL_COUNT_PADDING] = divides ? INT64_MAX : 1;
        const double divisor = divides ? 0x1p63 : (double)LARGEST;
        double expected[POOLED], sums[POOLED_LINES] = {0};
        for (int i = 0; i < POOLED; i++) {
            ((float *)c.data[0])[i] = (float)(1 + random_below(9)) * 1e27f;
            sums[line_of(i, channels_last)] += ((float *)c.data[0])[i];
        }
        for (int i = 0; i < POOLED; i++) expected[i] = sums[line_of(i, channels_last)] / divisor;
        check_values(&c, expected);
    }
}

static void check_wide_maxima(int channels_last) {
    test_case c;
    double expected[POOLED], tops[POOLED_LINES];
    for (int i = 0; i < POOLED_LINES; i++) tops[i] = -INFINITY;
    make_pool(&c, 0, channels_last, LARGEST, 1, LARGEST / 2);
    case_fill(&c);
    for (int i = 0; i < POOLED; i++) {
        double *top = &tops[line_of(i, channels_last)];
        *top = fmax(*top, ((float *)c.data[0])[i]);
    }
    for (int i = 0; i < POOLED; i++) expected[i] = tops[line_of(i, channels_last)];
    if (takes(&c, "rows")) fail("max_pool by rows visits 2^31 taps a row");
    check_values(&c, expected);
    make_pool(&c, 0, channels_last, 3, LARGEST, LARGEST);
    case_fill(&c); /* a window's middle tap alone lies within x */
    for (int i = 0; i < POOLED; i++) expected[i] = ((float *)c.data[0])[i];
    check_values(&c, expected);
}

/* A diagonal that no difference of positions reaches keeps everything or nothing. */
static void check_far_diagonals(void) {
    static const char *const ops[] = {"tril", "triu"};
    for (int i = 0; i < 4; i++) {
        test_case c;
        double expected[12] = {0};
        case_begin(&c, ops[i / 2], 0, "diagonal %s", i % 2 ? "INT64_MAX" : "INT64_MIN");
        case_input(&c, EB_F32, DENSE, 1, SHAPE(3, 4));
        case_output(&c, EB_F32, DENSE, SHAPE(3, 4));
        c.node.n_ints = 1;
        case_fill(&c);
        c.ints[EB_INT_TRIL_DIAGONAL] = i % 2 ? INT64_MAX : INT64_MIN;
        for (int n = 0; n < 12 && i / 2 != i % 2; n++) expected[n] = ((float *)c.data[0])[n];
        check_values(&c, expected);
    }
}

/* --- nothing ------------------------------------------------------------------------------------------------------ */

static void check_nothing(void) {
    test_case c;
    const conv_shape nothing = {.N = 1, .C = 0, .O = 0, .groups = 0, .axes = 2, .in = {3, 3}, .kernel = {1, 1},
                                .stride = {1, 1}, .dilation = {1, 1}};
    for (int i = 0; i < 4; i++) { /* the ops' rules refuse it, and no kernel divides by the number of groups */
        const int64_t x[] = {1, i & 1 ? 3 : 0, 3, i & 1 ? 0 : 3};
        case_begin(&c, i & 2 ? "conv_transpose" : "conv", 0, "no groups, channels last %d", i & 1);
        describe(&c, 0, EB_F32, 4, x), INPUT(0, 0, 1, 1);
        case_absent(&c), case_absent(&c);
        describe(&c, 1, EB_F32, 4, x);
        set_conv(&c, &nothing);
        c.ints[EB_INT_CONV_CHANNELS_LAST] = i & 1;
        c.constant = 2;
        check_plan(&c);
    }
}

/* --- what eb_plan_node refuses ------------------------------------------------------------------------------------ */

static void check_refusals(void) {
    test_case c;
    const int64_t most = (int64_t)1 << 44;
    for (int i = 0; i < 2; i++) { /* a line of 2^20 sums fits into scratch, one of 2^40 is refused */
        const int64_t size = (int64_t)1 << (i ? 40 : 20);
        case_begin(&c, "scatter", 0, "a line of %ld", (long)size);
        INPUT(size), describe(&c, 0, EB_I64, SHAPE(1)), INPUT(1), OUTPUT(size);
        c.node.n_ints = 2;
        c.ints[EB_INT_SCATTER_REDUCE] = EB_SCATTER_REDUCE_SUM;
        if ((check_plan(&c) == 0) != i) fail("%s: taken or refused", c.name);
    }
    for (int i = 0; i < 2; i++) { /* an empty tensor whose other axes no array has; `describe` does not make one */
        case_begin(&c, "copy", 0, "an empty tensor, large %d", i);
        INPUT(4, 4, 0), OUTPUT(4, 4, 0);
        for (int axis = 0; axis < 2 && i; axis++) c.operands[0].shape[axis] = c.operands[1].shape[axis] = most;
        if ((check_plan(&c) == 0) != i) fail("%s: taken or refused", c.name);
    }
    for (int i = 0; i < 2; i++) { /* more writes than int64 counts, by indices that repeat one element */
        const int64_t count = i ? most : 5;
        case_begin(&c, "index_put", 0, "%ld^2 writes", (long)count);
        INPUT(5, 5), INPUT(1), describe(&c, 0, EB_I64, SHAPE(count, 1)), describe(&c, 0, EB_I64, SHAPE(1, count)), OUTPUT(5, 5);
        c.operands[2].stride[0] = c.operands[3].stride[1] = 0;
        c.node.n_ints = 2;
        c.ints[EB_INT_INDEX_PUT_AXES] = 3;
        if ((check_plan(&c) == 0) != i) fail("%s: taken or refused", c.name);
    }
    case_begin(&c, "conv", 0, "a weight of one column, 128 times as large when winograd packs it into panels");
    INPUT(1, 1, 1, 1 << 24), INPUT(1, 1 << 24, 3, 3), case_absent(&c), case_absent(&c), OUTPUT(1, 1, 1, 1);
    set_conv(&c, &(conv_shape){.groups = 1, .axes = 2, .stride = {1, 1}, .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}});
    c.ints[EB_INT_CONV_CHANNELS_LAST] = 1;
    c.constant = 2;
    check_plan(&c);
    /* Products of sizes of several operands. */
    const int64_t C = (int64_t)1 << 22, O = (int64_t)1 << 18;
    case_begin(&c, "conv", 0, "9 * 2^62 multiply-adds");
    INPUT(1, 1 << 11, 1 << 11, C), INPUT(O, C, 3, 3), case_absent(&c), case_absent(&c), OUTPUT(1, 1 << 11, 1 << 11, O);
    set_conv(&c, &(conv_shape){.groups = 1, .axes = 2, .stride = {1, 1}, .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}});
    c.ints[EB_INT_CONV_CHANNELS_LAST] = 1;
    c.constant = 2;
    check_plan(&c);
    case_begin(&c, "expand_depthwise", 0, "2^44 channels under 2^40 taps");
    INPUT(1, 1, 1, (int64_t)1 << 44), INPUT(1, (int64_t)1 << 44), case_absent(&c), INPUT(1, 1, 1, (int64_t)1 << 40);
    case_absent(&c), OUTPUT(1, 1, 1, 1);
    for (int axis = 0; axis < 2; axis++)
        c.ints[EB_INT_EXPAND_DEPTHWISE_STRIDE + axis] = c.ints[EB_INT_EXPAND_DEPTHWISE_DILATION + axis] = 1;
    c.node.n_ints = EB_INT_EXPAND_DEPTHWISE_ACTIVATION + 1;
    check_plan(&c);
}

void test_limits(void) {
    check_arithmetic();
    check_clip();
    check_refusals();
    check_far_taps();
    check_far_strides();
    check_far_phases();
    for (int channels_last = 0; channels_last < 2; channels_last++) {
        check_wide_means(channels_last);
        check_wide_maxima(channels_last);
    }
    check_far_diagonals();
    check_nothing();
    for (int is_transposed = 0; is_transposed < 2; is_transposed++) check_large_convolutions(is_transposed);
}
