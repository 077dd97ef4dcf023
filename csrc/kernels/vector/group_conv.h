/* What conv of groups of channels does around its sums (depthwise.c, grouped.c): planning, tiles, operands.
 *
 *   tile    lines of a picture and vectors of channels, the vectors inside: x is read in the order in which it lies, and
 *           again for the next line of the result from the second-level cache. With the vectors outside those lines would
 *           stay in the first level, but memory is then read one vector in many (56 x 56 x 144: 260 us against 170).
 */
#ifndef EB_GROUP_CONV_H
#define EB_GROUP_CONV_H

#include "places.h"

typedef struct {
    int64_t lines;        /* lines of the result a tile */
    int64_t line_tiles;   /* tiles a picture, over lines */
    int64_t vectors;      /* vectors of channels a tile */
    int64_t vector_tiles; /* tiles over vectors */
} tiling;
EB_NODE_PLAN(tiling)

/* Of numbers one a spatial axis, that of PLANE, ROW or COLUMN; `otherwise` for one that is not there. */
static inline int64_t of_axis(const int64_t *numbers, int rank, int axis, int64_t otherwise) {
    return axis + rank < 5 ? otherwise : numbers[axis + rank - 5];
}

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_CONV_X), *w = eb_input(node, EB_IN_CONV_WEIGHT), *y = eb_output(node);
    const int64_t *stride = &node->ints[EB_INT_CONV_STRIDE], *low = &node->ints[EB_INT_CONV_LOW];
    const int64_t *dilation = &node->ints[EB_INT_CONV_DILATION];
    const int rank = x->rank;
    return (problem){.D = of_axis(x->shape + 1, rank, PLANE, 1),
                     .H = of_axis(x->shape + 1, rank, ROW, 1),
                     .W = of_axis(x->shape + 1, rank, COLUMN, 1),
                     .C = x->shape[rank - 1],
                     .O = y->shape[rank - 1],
                     .out_d = of_axis(y->shape + 1, rank, PLANE, 1),
                     .out_h = of_axis(y->shape + 1, rank, ROW, 1),
                     .out_w = of_axis(y->shape + 1, rank, COLUMN, 1),
                     .kernel_d = of_axis(w->shape + 2, rank, PLANE, 1),
                     .kernel_h = of_axis(w->shape + 2, rank, ROW, 1),
                     .kernel_w = of_axis(w->shape + 2, rank, COLUMN, 1),
                     .stride_d = of_axis(stride, rank, PLANE, 1),
                     .stride_h = of_axis(stride, rank, ROW, 1),
                     .stride_w = of_axis(stride, rank, COLUMN, 1),
                     .low_d = of_axis(low, rank, PLANE, 0),
                     .low_h = of_axis(low, rank, ROW, 0),
                     .low_w = of_axis(low, rank, COLUMN, 0),
                     .dilation_d = of_axis(dilation, rank, PLANE, 1),
                     .dilation_h = of_axis(dilation, rank, ROW, 1),
                     .dilation_w = of_axis(dilation, rank, COLUMN, 1),
                     .each_in = w->shape[1],
                     .each_out = w->shape[0] / node->ints[EB_INT_CONV_GROUPS]};
}

/* --- planning; `fits` is what the kernel asks of groups and weight ---------------------------------------- */

static inline int is_image_conv(const eb_node *node) {
    return node->ints[EB_INT_CONV_CHANNELS_LAST] != 0;
}

/* Lines whose part of x stays in the second-level cache, and as many tiles as a few threads need. */
static void cut(eb_node *node) {
    enum { X_BYTES = 256 << 10, TILES = 8 };
    problem p = describe(node);
    int64_t reach = (p.kernel_h - 1) * p.dilation_h + 1;
    int64_t fitting = X_BYTES / 4 / eb_max(1, p.kernel_d * p.W * p.C);
    int64_t all = p.out_d * p.out_h, lines = eb_max(1, eb_min(all, (fitting - reach) / p.stride_h + 1));
    int64_t vectors = eb_ceil_div(p.O, lanes_of(p.each_out));
    tiling *at = edit_tiling(node);
    at->line_tiles = eb_ceil_div(all, lines);
    at->lines = eb_ceil_div(all, at->line_tiles);
    int64_t others = eb_input(node, EB_IN_CONV_X)->shape[0] * at->line_tiles;
    at->vectors = eb_ceil_div(vectors, eb_min(vectors, eb_ceil_div(TILES, others)));
    at->vector_tiles = eb_ceil_div(vectors, at->vectors);
    node->tiles = others * at->vector_tiles;
}

static eb_status plan_places(eb_node *node, int fits) {
    const eb_status status = fits ? check_conv_operands(node) : EB_NOT_APPLICABLE;
    if (status != EB_OK || eb_size(eb_output(node)) == 0) return status;
    const problem p = describe(node);
    if (!is_line_addressable(node, &p)) return EB_NOT_APPLICABLE;
    cut(node);
    return EB_OK;
}

static eb_status run_places(const eb_node *node, void *const *bases, int64_t begin, int64_t end,
                            const group_function *(*functions_of)(const problem *)) {
    const problem p = describe(node);
    const tiling *at = tiling_of(node);
    const int64_t kind = node->ints[EB_INT_CONV_ACTIVATION];
    const float *x = eb_data(eb_input(node, EB_IN_CONV_X), bases);
    const float *residual = eb_optional_data(node, EB_IN_CONV_RESIDUAL, bases);
    float *y = eb_data(eb_output(node), bases);
    const float clamp = clamp_of(kind);
    group g = {.p = &p,
               .x_end = x + eb_size(eb_input(node, EB_IN_CONV_X)),
               .weight = eb_data(eb_input(node, EB_IN_CONV_WEIGHT), bases),
               .bias = eb_optional_data(node, EB_IN_CONV_BIAS, bases),
               .low = vf_set(clamp > 0 ? 0 : -INFINITY),
               .high = vf_set(clamp > 0 ? clamp : INFINITY),
               .activation = clamp > 0 ? NULL : activations[kind]};
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t block = tile / at->vector_tiles, picture = block / at->line_tiles;
        int64_t first = block % at->line_tiles * at->lines, last = eb_min(p.out_d * p.out_h, first + at->lines);
        const int64_t channels = at->vectors * lanes_of(p.each_out); /* a tile */
        int64_t o = tile % at->vector_tiles * channels, o_end = eb_min(p.O, o + channels);
        int64_t from = picture * p.out_d * p.out_h * p.out_w * p.O;
        g.x = x + picture * p.D * p.H * p.W * p.C;
        g.residual = residual ? residual + from : NULL;
        g.y = y + from;
        run_lines(&g, functions_of(&p), first, last, o, o_end);
    }
    return EB_OK;
}

/* What a kernel file ends in: it has `fits(node)` and `functions_of(problem)`. */
#define EB_PLACES_KERNEL(variant)                                                                                        \
    static eb_status plan(eb_node *node) { return plan_places(node, fits(node)); }                                       \
    static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {                      \
        if (input != EB_IN_CONV_WEIGHT || !fits(node)) return NULL;                                                      \
        const int64_t lanes = lanes_of(eb_input(node, input)->shape[0] / node->ints[EB_INT_CONV_GROUPS]);                \
        numbers[0] = lanes == EB_VL ? 0 : lanes;                                                                         \
        return &places;                                                                                                  \
    }                                                                                                                    \
    static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {           \
        (void)scratch;                                                                                                   \
        return run_places(node, bases, begin, end, functions_of);                                                        \
    }                                                                                                                    \
    const eb_kernel EB_SYMBOL(conv, variant) = {plan, run, choose_packing};

#endif
