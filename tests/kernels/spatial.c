/* conv and conv_transpose: one to three spatial axes, groups, uneven padding, every epilogue. */
#include <string.h>

#include "iterate.h"
#include "layers.h"
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

void multiply_in_bfloat(test_case *c) {
    case_encode(c, EB_IN_CONV_WEIGHT, "bfloat16", 0);
    c->ints[EB_INT_CONV_COMPUTE] = EB_COMPUTE_BFLOAT16;
    c->node.n_ints = EB_INT_CONV_COMPUTE + 1;
    case_note(c, " in bfloat16");
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
    if (s->bfloat) multiply_in_bfloat(c);
}

/* One to three axes: lengths about a micro-tile's, every kind of edge, epilogues. */
static void add_axes(case_visitor *v, int i, int channels_last, int bfloat) {
    static const int64_t lengths[] = {1, 2, 5, 13, 14, 15, 29, 60}, channels[] = {1, 3, 16, 17, 33};
    conv_shape s = {.N = 1 + i % 2, .C = channels[i % 5], .O = channels[i / 5 % 5], .groups = 1, .axes = 1 + i % 3,
                    .activation = i % (EB_ACTIVATION_RELU6 + 1), .bias = i % 3 != 0, .residual = i % 4 == 1,
                    .channels_last = channels_last, .how = i % 7 == 6 ? SWAPPED : DENSE, .bfloat = bfloat};
    random_seed((uint64_t)i);
    for (int a = 0; a < s.axes; a++) {
        s.in[a] = s.axes == 1 ? lengths[random_below(8)] : 1 + random_below(s.axes == 2 ? 16 : 7);
        s.kernel[a] = 1 + random_below(3), s.stride[a] = 1 + random_below(3), s.dilation[a] = 1 + random_below(2);
        s.low[a] = random_below(3), s.high[a] = s.low[a] + s.dilation[a] * (s.kernel[a] - 1);
        if (i % 4 == 3) s.low[a] = s.high[a] = 0, s.in[a] += s.dilation[a] * (s.kernel[a] - 1);
    }
    test_case c;
    make_conv(&c, &s);
    case_note(&c, "axes %d", i);
    visit_case(v, &c);
}

/* Signals and volumes of groups: every channel alone, groups of several, more results than channels. */
static void add_groups(case_visitor *v, int i, int axes, int channels_last) {
    static const int64_t groups[][3] = {{17, 1, 1}, {64, 1, 1}, {3, 1, 1}, {5, 4, 4}, {2, 16, 16}, {6, 1, 2}, {2, 7, 12}, {1, 5, 9}};
    const int64_t *sizes = groups[i % 8];
    conv_shape s = {.N = 1 + i % 2, .C = sizes[0] * sizes[1], .O = sizes[0] * sizes[2], .groups = sizes[0], .axes = axes, .bias = i % 3 != 0,
                    .residual = i % 4 == 1, .activation = i % (EB_ACTIVATION_RELU6 + 1),
                    .channels_last = channels_last, .how = i % 7 == 6 ? SWAPPED : DENSE};
    random_seed((uint64_t)i);
    for (int a = 0; a < axes; a++) {
        s.in[a] = 1 + random_below(axes == 1 ? 40 : 7), s.kernel[a] = 1 + random_below(axes == 1 ? 7 : 4);
        s.stride[a] = 1 + random_below(3), s.dilation[a] = 1 + random_below(2), s.low[a] = random_below(4);
        s.high[a] = s.low[a] + s.dilation[a] * (s.kernel[a] - 1);
    }
    test_case c;
    make_conv(&c, &s);
    case_note(&c, "groups %d", i);
    visit_case(v, &c);
}

/* Channels first: blocks of k and shared out channels, several panels a tile, nothing; what is not finite, in place. */
static void add_channels_first(case_visitor *v) {
    static const conv_shape shapes[] = {
        {.N = 1, .C = 130, .O = 150, .groups = 1, .axes = 2, .in = {6, 7}, .kernel = {3, 3}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1},
        {.N = 2, .C = 4, .O = 6, .groups = 2, .axes = 2, .in = {60, 50}, .kernel = {3, 3}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1, .activation = EB_ACTIVATION_GELU},
        {.N = 0, .C = 4, .O = 5, .groups = 1, .axes = 1, .in = {3}, .kernel = {2}, .stride = {2}, .dilation = {1}},
        {.N = 1, .C = 5, .O = 20, .groups = 1, .axes = 2, .in = {8, 9}, .kernel = {3, 3}, .stride = {1, 1},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1, .residual = 1},
        /* few results of a group: vectors along the places */
        {.N = 2, .C = 6, .O = 6, .groups = 3, .axes = 2, .in = {70, 131}, .kernel = {5, 7}, .stride = {2, 3},
         .low = {2, 4}, .high = {1, 3}, .dilation = {1, 2}, .bias = 1, .residual = 1, .activation = EB_ACTIVATION_RELU6},
        {.N = 1, .C = 33, .O = 1, .groups = 1, .axes = 2, .in = {19, 25}, .kernel = {3, 3}, .stride = {2, 1},
         .low = {0, 1}, .high = {0, 1}, .dilation = {2, 1}, .bias = 1, .residual = 1},
        {.N = 1, .C = 4, .O = 4, .groups = 4, .axes = 3, .in = {4, 9, 17}, .kernel = {2, 3, 1}, .stride = {1, 1, 4},
         .low = {1, 0, 0}, .high = {0, 3, 2}, .dilation = {2, 1, 1}},
    };
    test_case c;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        make_conv(&c, &shapes[i]);
        visit_case(v, &c);
    }
    for (int input = 0; input < 8; input++) {
        make_conv(&c, &shapes[input < 4 ? 3 : 5]);
        case_specials(&c, input % 4);
        if (input % 4 == 3) c.in_place = 3;
        visit_case(v, &c);
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

/* A shape of the tables, by the op whose cases are asked for. */
static void add_shape(case_visitor *v, const conv_shape *s) {
    test_case c;
    (strcmp(v->op, "conv") == 0 ? make_conv : make_conv_transpose)(&c, s);
    visit_case(v, &c);
}

/* Channels last: kernels shorter and longer than the stride, dilations with and without a common factor with it, places
 * that are cut off and places that no tap reaches, groups, channels alone, parts of panels and of vectors, epilogues. */
static void add_transposed_channels_last(case_visitor *v, int i) {
    static const int64_t channels[][3] = {{1, 3, 5},  {1, 16, 33}, {1, 17, 32}, {1, 5, 64}, {2, 4, 6},
                                          {19, 1, 1}, {2, 5, 40},  {1, 33, 15}, {4, 8, 8},  {1, 1, 70},
                                          {48, 1, 1}};
    const int64_t *sizes = channels[i % 11];
    conv_shape s = {.N = 1 + i % 2, .C = sizes[0] * sizes[1], .O = sizes[0] * sizes[2], .groups = sizes[0], .axes = 1 + i % 3,
                    .activation = i % (EB_ACTIVATION_RELU6 + 1), .bias = i % 3 != 0,
                    .residual = i % 4 == 1, .channels_last = 1, .how = i % 7 == 6 ? SWAPPED : DENSE};
    random_seed((uint64_t)i);
    for (int a = 0; a < s.axes; a++) {
        s.in[a] = 1 + random_below(s.axes == 1 ? 60 : s.axes == 2 ? 18 : 4);
        s.kernel[a] = 1 + random_below(5), s.stride[a] = 1 + random_below(4);
        s.dilation[a] = i % 5 == 4 ? 1 + random_below(4) : 1;
        int64_t whole = (s.in[a] - 1) * s.stride[a] + s.dilation[a] * (s.kernel[a] - 1) + 1;
        s.low[a] = random_below(eb_min(whole, 4));
        s.high[a] = random_below(eb_min(whole - s.low[a], 4)) - random_below(5); /* one place at least is left */
    }
    test_case c;
    make_conv_transpose(&c, &s);
    case_note(&c, "number %d", i);
    if (i % 8 == 5) case_specials(&c, 0), case_specials(&c, 1);
    if (s.residual && s.how == DENSE && i % 8 != 5) c.in_place = 3;
    visit_case(v, &c);
}

/* Every layout; bias, residual and activation turn by turn. */
static void add_layouts(case_visitor *v) {
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
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int how = DENSE; how <= SCATTERED; how++) {
            conv_shape s = shapes[i];
            s.how = (layout)how;
            s.bias = how % 2;
            s.residual = how / 2;
            s.activation = (int64_t)(4 * i + (size_t)how) % (EB_ACTIVATION_RELU6 + 1);
            if (s.C % s.groups == 0 && s.O % s.groups == 0) add_shape(v, &s);
        }
    }
}

/* The layers of ResNet-18 again, with their channels first: what is left to do for a program without `channels_last`. */
static void time_channels_first(case_visitor *v) {
    for (int i = 0; i < CONV_LAYERS; i++) {
        const conv_layer *l = &conv_layers[i];
        if (strncmp(l->models, "resnet18", 8) != 0) continue;
        int64_t pad = l->kernel / 2, places = places_of_layer(l);
        test_case c;
        make_conv(&c, &(conv_shape){.N = 1, .C = l->C, .O = l->O, .groups = 1, .axes = 2, .in = {l->size, l->size},
                                    .kernel = {l->kernel, l->kernel}, .stride = {l->stride, l->stride}, .low = {pad, pad},
                                    .high = {pad, pad}, .dilation = {1, 1}, .bias = 1, .activation = EB_ACTIVATION_RELU});
        case_timed(&c, 2.0 * (double)(places * l->C * l->O * l->kernel * l->kernel), "channels first, %ldx%ld/%ld %ld to %ld, %ldx%ld",
                   (long)l->kernel, (long)l->kernel, (long)l->stride, (long)l->C, (long)l->O, (long)l->size, (long)l->size);
        visit_case(v, &c);
    }
}

void cases_conv(case_visitor *v) {
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
    add_image_convolutions(v);
    add_layouts(v);
    for (int channels_last = 0; channels_last < 2; channels_last++) {
        for (int i = 0; i < 72; i++) add_axes(v, i, channels_last, 0);
        for (int i = 0; i < 96; i++) add_groups(v, i, i < 48 ? 1 : 3, channels_last);
    }
    for (int i = 0; i < 72; i++) add_axes(v, i, 1, 1);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        conv_shape s = large[i];
        add_shape(v, &s);
        s.bfloat = 1;
        add_shape(v, &s);
    }
    add_channels_first(v);
    add_extreme_convolutions(v, 0);
    time_channels_first(v);
}

/* Layers that make pictures larger: of generators and decoders (4 x 4 / 2), of U-Nets (2 x 2 / 2), and those with one more
 * row and column (3 x 3 / 2); the upsampling of every channel alone. All with bias and ReLU. */
static void time_transposed(case_visitor *v) {
    static const struct {
        int64_t size, C, O, kernel, pad, more, groups;
    } shapes[] = {{4, 512, 256, 4, 1, 0, 1},  {8, 256, 128, 4, 1, 0, 1},  {16, 256, 128, 4, 1, 0, 1}, {32, 128, 64, 4, 1, 0, 1},
                  {64, 64, 3, 4, 1, 0, 1},    {28, 256, 128, 2, 0, 0, 1}, {56, 128, 64, 2, 0, 0, 1},  {32, 128, 64, 3, 1, 1, 1},
                  {28, 64, 64, 4, 1, 0, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t size = shapes[i].size, C = shapes[i].C, O = shapes[i].O, k = shapes[i].kernel, pad = shapes[i].pad;
        int64_t groups = shapes[i].groups, high = pad - shapes[i].more;
        test_case c;
        make_conv_transpose(&c, &(conv_shape){.N = 1, .C = C, .O = O, .groups = groups, .axes = 2, .in = {size, size},
                                              .kernel = {k, k}, .stride = {2, 2}, .low = {pad, pad}, .high = {high, high},
                                              .dilation = {1, 1}, .activation = EB_ACTIVATION_RELU,
                                              .bias = 1, .channels_last = 1});
        case_timed(&c, 2.0 * (double)(size * size * C * O / groups * k * k), "%ldx%ld/2 %ld to %ld, %ldx%ld%s", (long)k, (long)k,
                   (long)C, (long)O, (long)size, (long)size, groups > 1 ? ", each channel alone" : "");
        visit_case(v, &c);
    }
}

void cases_conv_transpose(case_visitor *v) {
    static const conv_shape transposed[] = {
        /* blocks of rows, and tiles of panels; blocks of k; phases without taps; more phases than tiles are worth */
        {.N = 1, .C = 64, .O = 36, .groups = 1, .axes = 2, .in = {50, 40}, .kernel = {4, 4}, .stride = {2, 2},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1, .channels_last = 1},
        {.N = 1, .C = 520, .O = 150, .groups = 1, .axes = 2, .in = {4, 5}, .kernel = {3, 3}, .stride = {2, 2},
         .low = {1, 1}, .high = {0, 0}, .dilation = {1, 1}, .bias = 1, .residual = 1,
         .activation = EB_ACTIVATION_GELU, .channels_last = 1},
        {.N = 0, .C = 4, .O = 5, .groups = 1, .axes = 1, .in = {3}, .kernel = {2}, .stride = {2}, .dilation = {1},
         .channels_last = 1},
        {.N = 1, .C = 3, .O = 3, .groups = 3, .axes = 2, .in = {5, 4}, .kernel = {16, 16}, .stride = {8, 8},
         .low = {4, 4}, .high = {4, 4}, .dilation = {1, 1}, .channels_last = 1},
        /* several tiles of channels alone, blocks of places and the rest of a line */
        {.N = 2, .C = 37, .O = 37, .groups = 37, .axes = 2, .in = {30, 45}, .kernel = {4, 4}, .stride = {2, 2},
         .low = {1, 1}, .high = {1, 1}, .dilation = {1, 1}, .bias = 1, .residual = 1,
         .activation = EB_ACTIVATION_SILU, .channels_last = 1},
    };
    add_layouts(v);
    for (int i = 0; i < 176; i++) add_transposed_channels_last(v, i);
    for (size_t i = 0; i < sizeof transposed / sizeof *transposed; i++) add_shape(v, &transposed[i]);
    add_extreme_convolutions(v, 1);
    time_transposed(v);
}
