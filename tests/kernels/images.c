/* conv and pooling of channels-last images: every edge of the padding, strides, dilations, epilogues, several tiles. */
#include "suite.h"

/* Rounding of a sum of random products, as in linear.c. */
static double sum_tolerance(int64_t K) { return 1.2e-7 * (6 + 0.42 * (double)K); }

void make_image_conv(test_case *c, const image_shape *s) { make_grouped_image_conv(c, s, 1); }

void make_grouped_image_conv(test_case *c, const image_shape *s, int64_t groups) {
    int64_t padded_h = s->H + s->low_h + s->high_h, padded_w = s->W + s->low_w + s->high_w;
    int64_t out_h = (padded_h - s->dilation * (s->kernel_h - 1) - 1) / s->stride + 1;
    int64_t out_w = (padded_w - s->dilation * (s->kernel_w - 1) - 1) / s->stride + 1;
    case_begin(c, "conv", 2 * sum_tolerance(s->C / groups * s->kernel_h * s->kernel_w),
               "%ldx%ldx%ldx%ld to %ld, kernel %ldx%ld stride %ld dilation %ld groups %ld", (long)s->N, (long)s->H,
               (long)s->W, (long)s->C, (long)s->O, (long)s->kernel_h, (long)s->kernel_w, (long)s->stride,
               (long)s->dilation, (long)groups);
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
}

static void check(image_shape s) {
    test_case c;
    make_image_conv(&c, &s);
    case_check(&c);
}

/* Every channel alone: kernels with and without code of their own, all epilogues, vectors and parts of one, padding wider
 * than the image, lines that are no whole number of groups. */
static void check_depthwise(void) {
    static const int64_t widths[] = {1, 2, 5, 7, 8, 14, 15, 29}, channels[] = {1, 3, 4, 8, 16, 17, 33, 64};
    static const int64_t kernels[] = {3, 5, 3, 5, 1, 2, 4, 7};
    for (int i = 0; i < 96; i++) {
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 9, .W = widths[i % 8], .C = channels[i / 8 % 8]};
        s.O = s.C, s.kernel_w = kernels[i / 2 % 8], s.kernel_h = i % 5 ? s.kernel_w : 1 + random_below(3);
        s.stride = 1 + i % 7 % 3, s.dilation = 1 + i % 4 / 3;
        s.low_h = random_below(3), s.low_w = random_below(4);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.low_w + s.dilation * (s.kernel_w - 1);
        s.bias = i % 3 != 0, s.residual = i % 4 == 0, s.activation = i % (EB_CONV_ACTIVATION_RELU6 + 1);
        s.how = i % 5 == 4 ? SWAPPED : DENSE;
        test_case c;
        make_grouped_image_conv(&c, &s, s.C);
        case_check(&c);
    }
    static const image_shape more[] = {
        {1, 40, 33, 80, 80, 3, 3, 2, 1, 0, 0, 1, 1, 1, 0, EB_CONV_ACTIVATION_RELU6, DENSE}, /* tiles of lines */
        {2, 9, 8, 200, 200, 5, 5, 1, 1, 2, 2, 2, 2, 1, 1, EB_CONV_ACTIVATION_RELU, DENSE},   /* tiles of channels */
        {1, 20, 20, 20, 20, 3, 3, 1, 1, 0, 0, 0, 0, 1, 0, EB_CONV_ACTIVATION_SILU, DENSE},   /* not padded */
        {0, 5, 6, 7, 7, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_CONV_ACTIVATION_NONE, DENSE},
    };
    test_case c;
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        make_grouped_image_conv(&c, &more[i], more[i].C);
        case_check(&c);
    }
    for (int input = 0; input < 4; input++) {
        make_grouped_image_conv(&c, &(image_shape){1, 8, 9, 21, 21, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1,
                                                   input % 2 ? EB_CONV_ACTIVATION_RELU6 : EB_CONV_ACTIVATION_NONE, DENSE}, 21);
        case_specials(&c, input);
        if (input == 3) c.in_place = 3;
        case_check(&c);
    }
}

/* Groups of several channels: within a vector, of whole ones, across their edges; more and fewer results than channels. */
static void check_grouped(void) {
    static const int64_t groups[][3] = {{2, 2, 2}, {8, 4, 4}, {5, 4, 4}, {3, 8, 8},  {3, 16, 16}, {2, 5, 32},
                                        {4, 3, 3}, {6, 1, 2}, {3, 8, 2}, {2, 7, 12}, {16, 2, 2},  {3, 6, 16}};
    for (int i = 0; i < 72; i++) {
        const int64_t *v = groups[i % 12];
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 7, .W = 1 + i % 17, .C = v[0] * v[1], .O = v[0] * v[2]};
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + i / 12 % 4, s.stride = 1 + i % 5 % 3, s.dilation = 1 + i % 4 / 3;
        s.low_h = random_below(3), s.low_w = random_below(3);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.low_w + s.dilation * (s.kernel_w - 1);
        s.bias = i % 3 != 0, s.residual = i % 4 == 0, s.activation = i % (EB_CONV_ACTIVATION_RELU6 + 1);
        s.how = i % 5 == 4 ? SWAPPED : DENSE;
        test_case c;
        make_grouped_image_conv(&c, &s, v[0]);
        if (i % 6 == 5) case_specials(&c, i % 4 / 2);
        case_check(&c);
    }
}

void make_image_pool(test_case *c, const char *op, const image_shape *s, int ceil_mode, int channels_last) {
    int is_max = op[0] == 'm';
    int64_t dilation = is_max ? s->dilation : 1, out[2], padded[2] = {s->H + s->low_h + s->high_h, s->W + s->low_w + s->high_w};
    const int64_t kernel[2] = {s->kernel_h, s->kernel_w}, size[2] = {s->H + s->low_h, s->W + s->low_w};
    for (int axis = 0; axis < 2; axis++) {
        int64_t room = padded[axis] - dilation * (kernel[axis] - 1) - 1;
        out[axis] = (room + (ceil_mode ? s->stride - 1 : 0)) / s->stride + 1;
        if (ceil_mode && (out[axis] - 1) * s->stride >= size[axis]) out[axis]--;
    }
    case_begin(c, op, is_max ? 0 : 1e-6, "%ldx%ldx%ldx%ld, last %d, kernel %ldx%ld stride %ld dilation %ld ceil %d",
               (long)s->N, (long)s->H, (long)s->W, (long)s->C, channels_last, (long)s->kernel_h, (long)s->kernel_w,
               (long)s->stride, (long)dilation, ceil_mode);
    if (channels_last) {
        case_input(c, EB_F32, s->how, 1, SHAPE(s->N, s->H, s->W, s->C));
        case_output(c, EB_F32, DENSE, SHAPE(s->N, out[0], out[1], s->C));
    } else {
        case_input(c, EB_F32, s->how, 1, SHAPE(s->N, s->C, s->H, s->W));
        case_output(c, EB_F32, DENSE, SHAPE(s->N, s->C, out[0], out[1]));
    }
    for (int axis = 0; axis < 2; axis++) {
        c->ints[EB_INT_MAX_POOL_KERNEL + axis] = kernel[axis];
        c->ints[EB_INT_MAX_POOL_STRIDE + axis] = s->stride;
        if (is_max) c->ints[EB_INT_MAX_POOL_DILATION + axis] = dilation;
    }
    c->ints[EB_INT_MAX_POOL_LOW] = s->low_h, c->ints[EB_INT_MAX_POOL_LOW + 1] = s->low_w;
    c->ints[EB_INT_MAX_POOL_HIGH] = s->high_h, c->ints[EB_INT_MAX_POOL_HIGH + 1] = s->high_w;
    c->ints[is_max ? EB_INT_MAX_POOL_CEIL_MODE : EB_INT_AVG_POOL_CEIL_MODE] = ceil_mode;
    if (!is_max) c->ints[EB_INT_AVG_POOL_COUNT_PADDING] = s->bias, c->ints[EB_INT_AVG_POOL_DIVISOR] = s->residual;
    c->ints[is_max ? EB_INT_MAX_POOL_CHANNELS_LAST : EB_INT_AVG_POOL_CHANNELS_LAST] = channels_last;
    c->node.n_ints = (is_max ? EB_INT_MAX_POOL_CHANNELS_LAST : EB_INT_AVG_POOL_CHANNELS_LAST) + 1;
}

/* bias: whether padding counts in a mean; residual: its divisor. */
static void check_pools(void) {
    static const char *const ops[] = {"max_pool", "avg_pool"};
    static const int64_t channels[] = {1, 3, 4, 15, 16, 17, 40, 64};
    for (int i = 0; i < 128; i++) {
        image_shape s = {.N = 1 + i % 2, .H = 5 + i % 5, .W = 5 + i % 7, .C = channels[i / 2 % 8], .dilation = 1 + i % 3 / 2};
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + random_below(3), s.stride = 1 + random_below(3);
        s.low_h = s.high_h = random_below(s.kernel_h), s.low_w = s.high_w = random_below(s.kernel_w);
        s.bias = i % 4 / 2, s.residual = i % 8 == 7 ? 5 : 0, s.how = i % 6 == 5 ? SWAPPED : DENSE;
        test_case c;
        make_image_pool(&c, ops[i % 2], &s, i % 3 == 0, i < 64);
        if (i % 2 == 0 && i % 10 == 0) case_specials(&c, 0);
        case_check(&c);
    }
}

void test_images(void) {
    check_pools();
    check_depthwise();
    check_grouped();
    static const int64_t widths[] = {1, 2, 3, 7, 13, 14, 15, 29}, channels[] = {1, 3, 4, 16, 17, 33};
    for (int i = 0; i < 48; i++) {
        image_shape s = {.N = 1 + i % 2, .H = 1 + i % 9, .W = widths[i % 8], .C = channels[i % 6], .O = channels[i / 8 % 6]};
        s.kernel_h = 1 + random_below(3), s.kernel_w = 1 + random_below(3);
        s.stride = 1 + random_below(3), s.dilation = 1 + random_below(2);
        s.low_h = random_below(3), s.low_w = random_below(3);
        s.high_h = s.low_h + s.dilation * (s.kernel_h - 1), s.high_w = s.low_w + s.dilation * (s.kernel_w - 1);
        s.bias = i % 3 != 0, s.residual = i % 4 == 0, s.activation = i % (EB_CONV_ACTIVATION_RELU6 + 1);
        s.how = i % 5 == 4 ? SWAPPED : DENSE;
        check(s);
    }
    check((image_shape){1, 9, 9, 8, 40, 3, 3, 1, 1, 0, 0, 0, 0, 1, 1, EB_CONV_ACTIVATION_RELU, DENSE}); /* not padded */
    check((image_shape){1, 23, 24, 3, 64, 7, 7, 2, 1, 3, 3, 3, 3, 1, 0, EB_CONV_ACTIVATION_RELU, DENSE});
    check((image_shape){2, 40, 30, 64, 70, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, EB_CONV_ACTIVATION_NONE, DENSE}); /* blocks of rows */
    check((image_shape){1, 7, 7, 400, 65, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, EB_CONV_ACTIVATION_NONE, DENSE}); /* blocks of k */
    check((image_shape){1, 5, 6, 7, 9, 3, 5, 1, 1, 1, 2, 3, 0, 1, 0, EB_CONV_ACTIVATION_NONE, DENSE});   /* asymmetric */
    check((image_shape){0, 5, 6, 7, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_CONV_ACTIVATION_NONE, DENSE});
    test_case c;
    for (int input = 0; input < 2; input++) {
        make_image_conv(&c, &(image_shape){1, 8, 9, 5, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 0, EB_CONV_ACTIVATION_NONE, DENSE});
        case_specials(&c, input);
        case_check(&c);
    }
    make_image_conv(&c, &(image_shape){1, 8, 9, 5, 20, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1, EB_CONV_ACTIVATION_RELU, DENSE});
    c.in_place = 3;
    case_check(&c);
}
