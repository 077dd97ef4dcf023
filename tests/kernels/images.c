/* conv of channels-last images: every edge of the padding, strides, dilations, epilogues, groups, several tiles. */
#include <string.h>

#include "iterate.h"
#include "layers.h"
#include "suite.h"

/* Rounding of a sum of random products, as in linear.c. */
static double sum_tolerance(int64_t K) { return 1.2e-7 * (6 + 0.42 * (double)K); }

static void make_grouped_image_conv(test_case *c, const image_shape *s, int64_t groups) {
    int64_t padded_h = s->H + s->low_h + s->high_h, padded_w = s->W + s->low_w + s->high_w;
    int64_t out_h = (padded_h - s->dilation * (s->kernel_h - 1) - 1) / s->stride + 1;
    int64_t out_w = (padded_w - s->dilation * (s->kernel_w - 1) - 1) / s->stride + 1;
    case_begin(c, "conv", 2 * sum_tolerance(s->C / groups * s->kernel_h * s->kernel_w),
               "%ldx%ldx%ldx%ld to %ld, kernel %ldx%ld stride %ld dilation %ld groups %ld, low %ld %ld bias %d residual %d "
               "activation %ld layout %d", (long)s->N, (long)s->H, (long)s->W, (long)s->C, (long)s->O, (long)s->kernel_h,
               (long)s->kernel_w, (long)s->stride, (long)s->dilation, (long)groups, (long)s->low_h, (long)s->low_w, s->bias,
               s->residual, (long)s->activation, (int)s->how);
    case_input(c, EB_F32, s->how, 1, SHAPE(s->N, s->H, s->W, s->C));
    case_input(c, EB_F32, DENSE, 1, SHAPE(s->O, s->C / groups, s->kernel_h, s->kernel_w));
    if (s->bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(s->O));
    else
        case_absent(c);
    if (s->residual)
        case_input(c, EB_F32, DENSE, 1, SHAPE(s->N, out_h, out_w, s->O));
    else
        case_absent(c);
    case_output(c, EB_F32, DENSE, SHAPE(s->N, out_h, out_w, s->O));
    c->node.n_ints = EB_INT_CONV_CHANNELS_LAST + 1;
    for (int axis = 0; axis < 2; axis++) {
        c->ints[EB_INT_CONV_STRIDE + axis] = s->stride;
        c->ints[EB_INT_CONV_DILATION + axis] = s->dilation;
    }
    c->ints[EB_INT_CONV_LOW] = s->low_h, c->ints[EB_INT_CONV_LOW + 1] = s->low_w;
    c->ints[EB_INT_CONV_HIGH] = s->high_h, c->ints[EB_INT_CONV_HIGH + 1] = s->high_w;
    c->ints[EB_INT_CONV_GROUPS] = groups;
    c->ints[EB_INT_CONV_ACTIVATION] = s->activation;
    c->ints[EB_INT_CONV_CHANNELS_LAST] = 1;
    c->constant = 2;
    if (s->bfloat) multiply_in_bfloat(c);
}

static void make_image_conv(test_case *c, const image_shape *s) { make_grouped_image_conv(c, s, 1); }

/* In floats and in bfloat16. */
static void add_image(case_visitor *v, image_shape s) {
    test_case c;
    for (s.bfloat = 0; s.bfloat < 2; s.bfloat++) {
        make_image_conv(&c, &s);
        visit_case(v, &c);
    }
}

/* Few channels, an odd number: columns of the copy hold what a place needs of a row (direct_conv.h). */
static void add_windows(case_visitor *v) {
    for (int i = 0; i < 36; i++) {
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 5, .W = 1 + i % 19, .C = 1 + i % 4 * 2, .O = 1 + i * 5 % 37, .bias = 1};
        random_seed((uint64_t)i);
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + i % 7, s.stride = 1 + random_below(3), s.dilation = 1 + i / 4 % 2;
        s.low_h = random_below(2), s.low_w = random_below(5);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.dilation * (s.kernel_w - 1) - random_below(2) * s.low_w;
        s.high_w = eb_max(s.high_w, 0), s.bfloat = 1;
        test_case c;
        make_image_conv(&c, &s);
        case_note(&c, " windows %d", i);
        if (i % 6 == 5) case_specials(&c, i / 6 % 2);
        visit_case(v, &c);
    }
}

/* Every channel alone: kernels with and without code of their own, all epilogues, vectors and parts of one, padding wider
 * than the image, lines that are no whole number of groups. */
static void add_depthwise(case_visitor *v) {
    static const int64_t widths[] = {1, 2, 5, 7, 8, 14, 15, 29}, channels[] = {1, 3, 4, 8, 16, 17, 33, 64};
    static const int64_t kernels[] = {3, 5, 3, 5, 1, 2, 4, 7};
    for (int i = 0; i < 96; i++) {
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 9, .W = widths[i % 8], .C = channels[i / 8 % 8]};
        random_seed((uint64_t)i);
        s.O = s.C, s.kernel_w = kernels[i / 2 % 8], s.kernel_h = i % 5 ? s.kernel_w : 1 + random_below(3);
        s.stride = 1 + i % 7 % 3, s.dilation = 1 + i % 4 / 3;
        s.low_h = random_below(3), s.low_w = random_below(4);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.low_w + s.dilation * (s.kernel_w - 1);
        s.bias = i % 3 != 0, s.residual = i % 4 == 0, s.activation = i % (EB_ACTIVATION_RELU6 + 1);
        s.how = i % 5 == 4 ? SWAPPED : DENSE;
        test_case c;
        make_grouped_image_conv(&c, &s, s.C);
        visit_case(v, &c);
    }
    static const image_shape more[] = {
        {1, 40, 33, 80, 80, 3, 3, 2, 1, 0, 0, 1, 1, 1, 0, EB_ACTIVATION_RELU6, DENSE}, /* tiles of lines */
        {2, 9, 8, 200, 200, 5, 5, 1, 1, 2, 2, 2, 2, 1, 1, EB_ACTIVATION_RELU, DENSE},   /* tiles of channels */
        {1, 20, 20, 20, 20, 3, 3, 1, 1, 0, 0, 0, 0, 1, 0, EB_ACTIVATION_SILU, DENSE},   /* not padded */
        {0, 5, 6, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_ACTIVATION_NONE, DENSE},
    };
    test_case c;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        make_grouped_image_conv(&c, &more[i], more[i].C);
        visit_case(v, &c);
    }
    for (int input = 0; input < 4; input++) {
        make_grouped_image_conv(&c, &(image_shape){1, 8, 9, 21, 21, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1,
                                                   input % 2 ? EB_ACTIVATION_RELU6 : EB_ACTIVATION_NONE, DENSE}, 21);
        case_specials(&c, input);
        if (input == 3) c.in_place = 3;
        visit_case(v, &c);
    }
}

/* Groups of several channels: within a vector, of whole ones, across their edges; more and fewer results than channels. */
static void add_grouped(case_visitor *v) {
    static const int64_t groups[][3] = {{2, 2, 2}, {8, 4, 4}, {5, 4, 4}, {3, 8, 8},  {3, 16, 16}, {2, 5, 32},
                                        {4, 3, 3}, {6, 1, 2}, {3, 8, 2}, {2, 7, 12}, {16, 2, 2},  {3, 6, 16},
                                        {3, 12, 12}, {2, 24, 24}, {2, 30, 30}, {7, 5, 5}, {5, 2, 3}, {2, 20, 1}, {2, 33, 40}};
    enum { KINDS = sizeof groups / sizeof *groups };
    for (int i = 0; i < 6 * KINDS; i++) {
        const int64_t *sizes = groups[i % KINDS];
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 7, .W = 1 + i % 17, .C = sizes[0] * sizes[1], .O = sizes[0] * sizes[2]};
        random_seed((uint64_t)i);
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + i / KINDS % 4, s.stride = 1 + i % 5 % 3, s.dilation = 1 + i % 4 / 3;
        s.low_h = random_below(3), s.low_w = random_below(3);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.low_w + s.dilation * (s.kernel_w - 1);
        s.bias = i % 3 != 0, s.residual = i % 4 == 0, s.activation = i % (EB_ACTIVATION_RELU6 + 1);
        s.how = i % 5 == 4 ? SWAPPED : DENSE;
        test_case c;
        make_grouped_image_conv(&c, &s, sizes[0]);
        if (i % 6 == 5) case_specials(&c, i % 4 / 2);
        visit_case(v, &c);
    }
}

/* Layers of ResNet; those whose 1 x 1 is a linear are in linear.c. */
static void time_layers(case_visitor *v) {
    for (int i = 0; i < 2 * CONV_LAYERS; i++) {
        const conv_layer *l = &conv_layers[i % CONV_LAYERS];
        const int64_t pad = l->kernel / 2;
        const int bfloat = i >= CONV_LAYERS;
        if (is_linear_layer(l)) continue;
        test_case c;
        make_image_conv(&c, &(image_shape){1, l->size, l->size, l->C, l->O, l->kernel, l->kernel, l->stride, 1, pad,
                                           pad, pad, pad, 1, 0, EB_ACTIVATION_RELU, DENSE, bfloat});
        name_layer(&c, l);
        if (bfloat) case_note(&c, " of bf16");
        visit_case(v, &c);
    }
}

/* Convolutions of groups: the depthwise layers of EfficientNet-Lite0 at 224 x 224, those of ResNeXt-50 32 x 4d, and wider
 * ones, as of RegNet. */
static void time_groups(case_visitor *v) {
    static const struct {
        int64_t size, channels, each, kernel, stride;
    } shapes[] = {{112, 32, 1, 3, 1}, {112, 96, 1, 3, 2}, {56, 144, 1, 3, 1}, {56, 144, 1, 5, 2}, {28, 240, 1, 5, 1}, {28, 240, 1, 3, 2},
                  {14, 480, 1, 3, 1}, {14, 480, 1, 5, 1}, {14, 672, 1, 5, 1}, {14, 672, 1, 5, 2}, {7, 1152, 1, 5, 1}, {7, 1152, 1, 3, 1},
                  {56, 128, 4, 3, 1}, {28, 256, 8, 3, 1}, {14, 512, 16, 3, 1}, {7, 1024, 32, 3, 1},
                  {28, 240, 12, 3, 1}, {28, 336, 24, 3, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t size = shapes[i].size, C = shapes[i].channels, each = shapes[i].each, k = shapes[i].kernel, pad = k / 2;
        int64_t stride = shapes[i].stride, places = (size / stride) * (size / stride);
        test_case c;
        make_grouped_image_conv(&c, &(image_shape){1, size, size, C, C, k, k, stride, 1, pad, pad, pad, pad, 1, 0,
                                                   EB_ACTIVATION_RELU, DENSE}, C / each);
        case_timed(&c, 2.0 * (double)(places * C * each * k * k), "%ld x %ld x %ld in groups of %ld, %ld x %ld / %ld", (long)size,
                   (long)size, (long)C, (long)each, (long)k, (long)k, (long)stride);
        visit_case(v, &c);
    }
}

void add_image_convolutions(case_visitor *v) {
    add_depthwise(v);
    add_grouped(v);
    static const int64_t widths[] = {1, 2, 3, 7, 13, 14, 15, 29}, channels[] = {1, 3, 4, 16, 17, 33};
    for (int i = 0; i < 48; i++) {
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 9, .W = widths[i % 8], .C = channels[i % 6], .O = channels[i / 8 % 6]};
        random_seed((uint64_t)i);
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + random_below(3);
        s.stride = 1 + random_below(3), s.dilation = 1 + random_below(2);
        s.low_h = random_below(3), s.low_w = random_below(3);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.low_w + s.dilation * (s.kernel_w - 1);
        s.bias = i % 3 != 0, s.residual = i % 4 == 0, s.activation = i % (EB_ACTIVATION_RELU6 + 1);
        s.how = i % 5 == 4 ? SWAPPED : DENSE;
        add_image(v, s);
    }
    add_image(v, (image_shape){1, 9, 9, 8, 40, 3, 3, 1, 1, 0, 0, 0, 0, 1, 1, EB_ACTIVATION_RELU, DENSE}); /* not padded */
    add_image(v, (image_shape){1, 23, 24, 3, 64, 7, 7, 2, 1, 3, 3, 3, 3, 1, 0, EB_ACTIVATION_RELU, DENSE});
    add_image(v, (image_shape){2, 40, 30, 64, 70, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, EB_ACTIVATION_NONE, DENSE}); /* blocks of rows */
    add_image(v, (image_shape){1, 7, 7, 400, 65, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, EB_ACTIVATION_NONE, DENSE}); /* blocks of k */
    add_image(v, (image_shape){1, 5, 6, 7, 9, 3, 5, 1, 1, 1, 2, 3, 0, 1, 0, EB_ACTIVATION_NONE, DENSE});   /* asymmetric */
    add_image(v, (image_shape){0, 5, 6, 7, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_ACTIVATION_NONE, DENSE});
    test_case c;
    for (int i = 0; i < 6; i++) {
        image_shape s = {1, 8, 9, i / 2 == 1 ? 16 : 5, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_ACTIVATION_NONE, DENSE, i > 1};
        make_image_conv(&c, &s);
        case_specials(&c, i % 2);
        case_note(&c, " with specials in input %d", i % 2);
        visit_case(v, &c);
    }
    for (int bfloat = 0; bfloat < 2; bfloat++) {
        make_image_conv(&c, &(image_shape){1, 8, 9, 5, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, EB_ACTIVATION_RELU, DENSE, bfloat});
        c.in_place = 3;
        visit_case(v, &c);
    }
    add_windows(v);
    time_layers(v);
    time_groups(v);
}
