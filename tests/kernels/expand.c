/* expand_depthwise: every edge of the padding, strides, dilations, epilogues, parts of panels, several tiles and chunks. */
#include <stdio.h>

#include "suite.h"

/* Rounding of what lies between, as in linear.c, then of a sum of as many of those as there are taps; both have an epilogue. */
static double tolerance_of(int64_t C, int64_t taps) { return 2.4e-7 * (6 + 0.42 * (double)(C + taps)) * (double)(1 + taps / 8); }

void make_expand_depthwise(test_case *c, const image_shape *s, int64_t expand_activation) {
    int64_t out_h = (s->H + s->low_h + s->high_h - s->dilation * (s->kernel_h - 1) - 1) / s->stride + 1;
    int64_t out_w = (s->W + s->low_w + s->high_w - s->dilation * (s->kernel_w - 1) - 1) / s->stride + 1;
    case_begin(c, "expand_depthwise", tolerance_of(s->C, s->kernel_h * s->kernel_w),
               "%ldx%ldx%ldx%ld to %ld, kernel %ldx%ld stride %ld dilation %ld low %ld %ld activations %ld %ld bias %d "
               "layout %d", (long)s->N, (long)s->H, (long)s->W, (long)s->C, (long)s->O, (long)s->kernel_h, (long)s->kernel_w, (long)s->stride,
               (long)s->dilation, (long)s->low_h, (long)s->low_w, (long)expand_activation, (long)s->activation,
               s->bias, (int)s->how);
    case_input(c, EB_F32, s->how, 1, SHAPE(s->N, s->H, s->W, s->C));
    case_input(c, EB_F32, DENSE, 1, SHAPE(s->O, s->C));
    if (s->bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(s->O));
    else
        case_absent(c);
    case_input(c, EB_F32, DENSE, 1, SHAPE(s->O, 1, s->kernel_h, s->kernel_w));
    if (s->bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(s->O));
    else
        case_absent(c);
    case_output(c, EB_F32, DENSE, SHAPE(s->N, out_h, out_w, s->O));
    c->node.n_ints = EB_INT_EXPAND_DEPTHWISE_ACTIVATION + 1;
    for (int axis = 0; axis < 2; axis++) {
        c->ints[EB_INT_EXPAND_DEPTHWISE_STRIDE + axis] = s->stride;
        c->ints[EB_INT_EXPAND_DEPTHWISE_DILATION + axis] = s->dilation;
    }
    c->ints[EB_INT_EXPAND_DEPTHWISE_LOW] = s->low_h, c->ints[EB_INT_EXPAND_DEPTHWISE_LOW + 1] = s->low_w;
    c->ints[EB_INT_EXPAND_DEPTHWISE_HIGH] = s->high_h, c->ints[EB_INT_EXPAND_DEPTHWISE_HIGH + 1] = s->high_w;
    c->ints[EB_INT_EXPAND_DEPTHWISE_EXPAND_ACTIVATION] = expand_activation;
    c->ints[EB_INT_EXPAND_DEPTHWISE_ACTIVATION] = s->activation;
    c->constant = 1 << 1 | 1 << 3;
}

static void add_shape(case_visitor *v, const image_shape *s, int64_t expand_activation) {
    test_case c;
    make_expand_depthwise(&c, s, expand_activation);
    visit_case(v, &c);
}

/* The layers of EfficientNet-Lite0 at 224 x 224 behind the 1 x 1 that widens what they read, with ReLU6. */
static void time_layers(case_visitor *v) {
    static const struct {
        int64_t size, C, O, kernel, stride;
    } shapes[] = {{112, 16, 96, 3, 2}, {56, 24, 144, 3, 1}, {56, 24, 144, 5, 2}, {28, 40, 240, 5, 1}, {28, 40, 240, 3, 2},
                  {14, 80, 480, 3, 1}, {14, 80, 480, 5, 1}, {14, 112, 672, 5, 1}, {14, 112, 672, 5, 2}, {7, 192, 1152, 5, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t size = shapes[i].size, C = shapes[i].C, O = shapes[i].O, k = shapes[i].kernel, pad = k / 2;
        int64_t stride = shapes[i].stride, places = (size / stride) * (size / stride);
        test_case c;
        make_expand_depthwise(&c, &(image_shape){1, size, size, C, O, k, k, stride, 1, pad, pad, pad, pad, 1, 0,
                                                 EB_ACTIVATION_RELU6, DENSE}, EB_ACTIVATION_RELU6);
        case_timed(&c, 2.0 * (double)(size * size * C * O + places * O * k * k), "%ld x %ld x %ld to %ld, then %ld x %ld / %ld",
                   (long)size, (long)size, (long)C, (long)O, (long)k, (long)k, (long)stride);
        visit_case(v, &c);
    }
}

void cases_expand_depthwise(case_visitor *v) {
    static const int64_t widths[] = {1, 2, 5, 7, 8, 14, 15, 29}, channels[] = {1, 3, 16, 17, 33, 64, 70};
    static const int64_t kernels[] = {3, 5, 3, 5, 1, 2, 4};
    const int64_t kinds = EB_ACTIVATION_RELU6 + 1;
    for (int i = 0; i < 84; i++) {
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 9, .W = widths[i % 8], .C = channels[i / 3 % 7], .O = channels[i % 7]};
        random_seed((uint64_t)i);
        s.kernel_w = kernels[i / 2 % 7], s.kernel_h = i % 5 ? s.kernel_w : 1 + random_below(3);
        s.stride = 1 + i % 7 % 3, s.dilation = 1 + i % 4 / 3;
        s.low_h = random_below(3), s.low_w = random_below(4);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.low_w + s.dilation * (s.kernel_w - 1);
        s.bias = i % 3 != 0, s.activation = i % kinds, s.how = i % 5 == 4 ? SWAPPED : DENSE;
        add_shape(v, &s, (i / 3) % kinds);
    }
    static const image_shape more[] = {
        {1, 66, 60, 3, 20, 3, 3, 2, 1, 0, 0, 1, 1, 1, 0, EB_ACTIVATION_RELU6, DENSE},  /* tiles of lines */
        {1, 70, 90, 2, 9, 5, 5, 1, 1, 2, 2, 2, 2, 1, 0, EB_ACTIVATION_NONE, DENSE},    /* chunks of lines */
        {8, 70, 100, 1, 3, 3, 3, 2, 1, 1, 0, 1, 1, 1, 0, EB_ACTIVATION_RELU, DENSE},   /* of whole pictures */
        {1, 40, 400, 1, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_ACTIVATION_RELU, DENSE},   /* of few lines */
        {1, 30, 300, 1, 4, 1, 1, 4, 1, 0, 0, 0, 0, 1, 0, EB_ACTIVATION_RELU, DENSE},   /* apart from each other */
        {1, 2, 2, 5, 40, 2, 2, 1, 1, 4, 3, 5, 6, 1, 0, EB_ACTIVATION_NONE, DENSE},     /* lines of padding alone */
        {2, 9, 8, 40, 200, 5, 5, 1, 1, 2, 2, 2, 2, 1, 0, EB_ACTIVATION_SILU, DENSE},
        {0, 5, 6, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_ACTIVATION_NONE, DENSE},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) add_shape(v, &more[i], i % 2 ? EB_ACTIVATION_RELU6 : 0);
    for (int input = 0; input < 5; input++) {
        test_case c;
        const image_shape s = {1, 8, 9, 6, 21, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_ACTIVATION_NONE, DENSE};
        make_expand_depthwise(&c, &s, input % 2 ? EB_ACTIVATION_RELU6 : EB_ACTIVATION_NONE);
        case_specials(&c, input);
        visit_case(v, &c);
    }
    time_layers(v);
}
