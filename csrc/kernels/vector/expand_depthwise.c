/* expand_depthwise: a linear over the channels of an image, whose result is a few times wider, and every channel of that
 * convolved alone. What lies between never goes to memory:
 *
 *   x [lines, W, C] @ panel [C, EB_NR] -> between [lines, W, EB_NR], in scratch -> sums of places (depthwise_sums.h) -> y
 *
 *   tile    one panel of channels, some lines of a picture's result; only tiles of other lines make a line between twice
 *   chunk   lines of a tile whose lines between stay in the second-level cache. Those that the next chunk reads as well are
 *           moved to the front of scratch.
 */
#include "depthwise_sums.h"
#include "gemm.h"
#include "packings.h"

typedef struct {
    int64_t lines;      /* lines of the result a tile */
    int64_t line_tiles; /* tiles a picture, over lines */
    int64_t chunk;      /* lines of the result a chunk */
} tiling;
EB_NODE_PLAN(tiling)
enum {
    X = EB_IN_EXPAND_DEPTHWISE_X,
    EXPAND = EB_IN_EXPAND_DEPTHWISE_EXPAND,
    EXPAND_BIAS = EB_IN_EXPAND_DEPTHWISE_EXPAND_BIAS,
    WEIGHT = EB_IN_EXPAND_DEPTHWISE_WEIGHT,
    BIAS = EB_IN_EXPAND_DEPTHWISE_BIAS
};

/* The convolution of one panel of channels: C is what its places lie apart. */
static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, X), *w = eb_input(node, WEIGHT), *y = eb_output(node);
    const int64_t *ints = node->ints;
    return (problem){.D = 1,
                     .H = x->shape[1],
                     .W = x->shape[2],
                     .C = EB_NR,
                     .O = y->shape[3],
                     .out_d = 1,
                     .out_h = y->shape[1],
                     .out_w = y->shape[2],
                     .kernel_d = 1,
                     .kernel_h = w->shape[2],
                     .kernel_w = w->shape[3],
                     .stride_h = ints[EB_INT_EXPAND_DEPTHWISE_STRIDE],
                     .stride_w = ints[EB_INT_EXPAND_DEPTHWISE_STRIDE + 1],
                     .low_h = ints[EB_INT_EXPAND_DEPTHWISE_LOW],
                     .low_w = ints[EB_INT_EXPAND_DEPTHWISE_LOW + 1],
                     .dilation_h = ints[EB_INT_EXPAND_DEPTHWISE_DILATION],
                     .dilation_w = ints[EB_INT_EXPAND_DEPTHWISE_DILATION + 1],
                     .each_in = 1,
                     .each_out = 1};
}

/* Lines between that `lines` neighbouring lines of the result reach over. */
static int64_t reach_of(const problem *p, int64_t lines) {
    return (lines - 1) * p->stride_h + (p->kernel_h - 1) * p->dilation_h + 1;
}

/* How far neighbouring places of x lie apart, if all of a picture's do alike: channels may lie anywhere, also outside. */
static int places_of(const eb_tensor *x, int64_t *apart) {
    *apart = x->shape[2] == 1 ? x->stride[1] : x->stride[2];
    return x->shape[1] == 1 || x->stride[1] == x->shape[2] * *apart;
}

static eb_status plan(eb_node *node) {
    enum { CHUNK_BYTES = 128 << 10, TILES = 16 };
    if (!eb_input(node, EXPAND)->is_packed || !eb_input(node, WEIGHT)->is_packed) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    int64_t apart;
    if (!places_of(eb_input(node, X), &apart)) return EB_NEEDS_DENSE;
    for (int i = EXPAND_BIAS; i <= BIAS; i++)
        if (i != WEIGHT && eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    if (eb_size(eb_output(node)) == 0) return EB_OK;
    const problem p = describe(node);
    if (!is_line_addressable(node, &p)) return EB_NOT_APPLICABLE;
    const int64_t others = eb_input(node, X)->shape[0] * eb_ceil_div(p.O, EB_NR);
    const int64_t fitting = CHUNK_BYTES / 4 / eb_max(1, p.W * EB_NR);
    tiling *at = edit_tiling(node);
    at->lines = eb_ceil_div(p.out_h, eb_min(p.out_h, eb_ceil_div(TILES, others)));
    at->line_tiles = eb_ceil_div(p.out_h, at->lines);
    at->chunk = eb_max(1, eb_min(at->lines, (fitting - reach_of(&p, 1)) / p.stride_h + 1));
    node->tiles = others * at->line_tiles;
    node->scratch_bytes = eb_min(p.H, reach_of(&p, at->chunk)) * p.W * EB_NR * 4;
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    (void)node;
    return input == EXPAND ? choose_packing_of(&panels_packing, 0, 1, numbers) : input == WEIGHT ? &places : NULL;
}

/* One panel of channels of a picture. */
typedef struct {
    const problem *p;
    eb_product product; /* of the whole picture */
    group sums;
    float *between;
    int64_t channels, chunk;
} work;

/* Lines [first, last) of the result. */
static void run_panel(const work *k, int64_t first, int64_t last) {
    problem chunk = *k->p;
    const problem *p = k->p;
    const int64_t line = p->W * EB_NR;
    int64_t held = 0, held_end = 0; /* lines between that scratch holds */
    for (int64_t begin = first; begin < last; begin += k->chunk) {
        const int64_t end = eb_min(last, begin + k->chunk), top = begin * p->stride_h - p->low_h;
        const int64_t from = eb_max(0, eb_min(top, p->H)), to = eb_max(from, eb_min(top + reach_of(p, end - begin), p->H));
        const int64_t kept = eb_max(0, held_end - from);
        if (kept) memmove(k->between, k->between + (from - held) * line, (size_t)(kept * line) * 4);
        held = from, held_end = to;
        eb_product product = k->product;
        product.M = (to - from - kept) * p->W;
        product.x += (from + kept) * p->W * product.x_row;
        product.y = k->between + kept * line;
        if (product.M) multiply_panel(&product);
        group sums = k->sums;
        chunk.H = to - from;
        chunk.low_h = p->low_h + from;
        sums.p = &chunk;
        sums.x = k->between;
        sums.x_end = k->between + (to - from) * line;
        run_lines(&sums, functions_of(p), begin, end, 0, k->channels);
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const problem p = describe(node);
    const tiling *at = tiling_of(node);
    const int64_t kind = node->ints[EB_INT_EXPAND_DEPTHWISE_ACTIVATION];
    const int64_t between_kind = node->ints[EB_INT_EXPAND_DEPTHWISE_EXPAND_ACTIVATION], C = eb_input(node, X)->shape[3];
    const int64_t panels = eb_ceil_div(p.O, EB_NR), taps = p.kernel_h * p.kernel_w;
    const float *x = eb_data(eb_input(node, X), bases), *expand = eb_data(eb_input(node, EXPAND), bases);
    const float *weight = eb_data(eb_input(node, WEIGHT), bases);
    const float *expand_bias = eb_optional_data(node, EXPAND_BIAS, bases);
    const float *bias = eb_optional_data(node, BIAS, bases);
    float *y = eb_data(eb_output(node), bases);
    const float between_clamp = clamp_of(between_kind), clamp = clamp_of(kind);
    int64_t apart;
    places_of(eb_input(node, X), &apart);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t o = tile % panels * EB_NR, block = tile / panels, picture = block / at->line_tiles;
        const int64_t first = block % at->line_tiles * at->lines, channels = eb_min(EB_NR, p.O - o);
        float biases[EB_NR] = {0};
        if (expand_bias) memcpy(biases, expand_bias + o, (size_t)channels * 4);
        const work k = {.p = &p,
                        .between = scratch,
                        .channels = channels,
                        .chunk = at->chunk,
                        .product = {.columns = eb_ceil_div(channels, EB_VL) * EB_VL,
                                    .K = C,
                                    .x = x + picture * eb_input(node, X)->stride[0],
                                    .x_row = apart,
                                    .x_k = eb_input(node, X)->stride[3],
                                    .b = expand + o * C,
                                    .ldb = EB_NR,
                                    .ldy = EB_NR,
                                    .alpha = 1,
                                    .bias = biases,
                                    .activation = between_clamp > 0 ? NULL : activations[between_kind],
                                    .clamp = between_clamp},
                        .sums = {.weight = weight + o * taps,
                                 .bias = bias ? bias + o : NULL,
                                 .y = y + picture * p.out_h * p.out_w * p.O + o,
                                 .low = vf_set(clamp > 0 ? 0 : -INFINITY),
                                 .high = vf_set(clamp > 0 ? clamp : INFINITY),
                                 .activation = clamp > 0 ? NULL : activations[kind]}};
        run_panel(&k, first, eb_min(p.out_h, first + at->lines));
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(expand_depthwise, panels) = {plan, run, choose_packing};
