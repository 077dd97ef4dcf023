/* conv over two spatial axes of channels-last images whose every channel is convolved alone: groups, channels of x and
 * channels of the result are one number. Vectors run along channels.
 *
 *   group   PLACES neighbouring places of a line of the result, one vector of channels: their sums stay in registers over
 *           all taps. A row of the kernel is in registers too, so each vector of x that is loaded serves every tap of the
 *           row that reaches it (3 x 3 / 1: 9 + 3 loads for 21 multiply-adds).
 *   tile    lines of a picture and vectors of channels, the vectors inside: x is read in the order in which it lies, and
 *           again for the next line of the result from the second-level cache. With the vectors outside those lines would
 *           stay in the first level, but memory is then read one vector in many (56 x 56 x 144: 260 us against 170).
 *
 * Elements of the padding are read from a vector of zeros. The weight is packed as [C / EB_VL][taps][EB_VL].
 */
#include "activation.h"

enum { PLACES = 7 }; /* it divides the lines of 224 x 224 and its halves; sums, a row of 5 taps and x fit 16 registers */

/* private: lines of the result a tile, tiles a picture over lines, vectors of channels a tile, tiles over vectors */
enum { AT_LINES, AT_LINE_TILES, AT_VECTORS, AT_VECTOR_TILES };

typedef struct {
    int64_t H, W, C, out_h, out_w, kernel_h, kernel_w, stride_h, stride_w, low_h, low_w, dilation_h, dilation_w;
} problem;

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, 0), *w = eb_input(node, 1), *y = eb_output(node);
    const int64_t *ints = node->ints;
    return (problem){.H = x->shape[1],
                     .W = x->shape[2],
                     .C = x->shape[3],
                     .out_h = y->shape[1],
                     .out_w = y->shape[2],
                     .kernel_h = w->shape[2],
                     .kernel_w = w->shape[3],
                     .stride_h = ints[EB_INT_CONV_STRIDE],
                     .stride_w = ints[EB_INT_CONV_STRIDE + 1],
                     .low_h = ints[EB_INT_CONV_LOW],
                     .low_w = ints[EB_INT_CONV_LOW + 1],
                     .dilation_h = ints[EB_INT_CONV_DILATION],
                     .dilation_w = ints[EB_INT_CONV_DILATION + 1]};
}

/* The weight [O, 1, kh, kw] of as many groups as it has rows. */
static int is_depthwise(const eb_node *node) {
    const eb_tensor *w = eb_input(node, 1);
    return w->rank == 4 && node->ints[EB_INT_CONV_CHANNELS_LAST] && w->shape[1] == 1 &&
           node->ints[EB_INT_CONV_GROUPS] == w->shape[0];
}

/* Lines whose part of x stays in the second-level cache, and as many tiles as a few threads need. */
static void cut(eb_node *node) {
    enum { X_BYTES = 256 << 10, TILES = 8 };
    problem p = describe(node);
    int64_t reach = (p.kernel_h - 1) * p.dilation_h + 1, fitting = X_BYTES / 4 / eb_max(1, p.W * p.C);
    int64_t lines = eb_max(1, eb_min(p.out_h, (fitting - reach) / p.stride_h + 1)), vectors = eb_ceil_div(p.C, EB_VL);
    int64_t *at = node->private;
    at[AT_LINE_TILES] = eb_ceil_div(p.out_h, lines);
    at[AT_LINES] = eb_ceil_div(p.out_h, at[AT_LINE_TILES]);
    int64_t others = eb_input(node, 0)->shape[0] * at[AT_LINE_TILES];
    at[AT_VECTORS] = eb_ceil_div(vectors, eb_min(vectors, eb_ceil_div(TILES, others)));
    at[AT_VECTOR_TILES] = eb_ceil_div(vectors, at[AT_VECTORS]);
    node->tiles = others * at[AT_VECTOR_TILES];
}

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, 0), *w = eb_input(node, 1), *y = eb_output(node);
    for (int i = 0; i <= node->n_inputs; i++)
        if (node->operands[i].dtype != EB_F32 && node->operands[i].dtype >= 0) return EB_NOT_APPLICABLE;
    if (!is_depthwise(node) || !w->is_packed || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x) || (eb_is_present(node, 2) && !eb_is_dense(eb_input(node, 2)))) return EB_NEEDS_DENSE;
    if (eb_is_present(node, 3) && !eb_is_dense(eb_input(node, 3))) return EB_NEEDS_DENSE;
    if (eb_size(y)) cut(node);
    return EB_OK;
}

static int64_t packed_bytes(const eb_node *node, int32_t input) {
    const eb_tensor *w = eb_input(node, 1);
    if (input != 1 || w->dtype != EB_F32 || !is_depthwise(node)) return 0;
    return eb_ceil_div(w->shape[0], EB_VL) * EB_VL * w->shape[2] * w->shape[3] * 4;
}

static void pack(const eb_node *node, int32_t input, const void *source, void *destination) {
    const eb_tensor *w = eb_input(node, input);
    int64_t C = w->shape[0], kernel_w = w->shape[3], taps = w->shape[2] * kernel_w;
    memset(destination, 0, (size_t)(eb_ceil_div(C, EB_VL) * EB_VL * taps) * 4);
    for (int64_t c = 0; c < C; c++)
        for (int64_t tap = 0; tap < taps; tap++)
            ((float *)destination)[(c / EB_VL * taps + tap) * EB_VL + c % EB_VL] =
                ((const eb_float_unaligned *)source)[c * w->stride[0] + tap / kernel_w * w->stride[2] +
                                                     tap % kernel_w * w->stride[3]];
}

/* One group. */
typedef struct {
    const problem *p;
    const float *x, *x_end; /* the picture's first place at these channels, past the last element of all */
    const float *weight, *bias, *residual;
    float *y;
    vf low, high; /* of the result */
    eb_activation activation;
    int64_t channels;  /* EB_VL, or fewer */
    int64_t top, left; /* of the window, less the padding */
    int64_t places;    /* PLACES, or fewer */
} group;

static const float zeros[EB_VL];

/* A vector of x at column `left + q` of a line: zeros outside of `W` columns. `part`: what lies behind the channels may be
 * others', whose sums go nowhere, but not past the end of x. */
EB_INLINE vf load_x(const group *g, const float *line, int64_t q, int64_t W, const int edge, const int part) {
    const float *at = line + q * g->p->C;
    if (edge && (uint64_t)(g->left + q) >= (uint64_t)W) return vf_load(zeros);
    return part && at + EB_VL > g->x_end ? vf_load_part(at, g->channels) : vf_load(at);
}

/* KW, S: columns and stride of the kernel, 0 where only p knows them (or columns are apart). */
EB_INLINE void sum_group(const group *g, const int KW, const int S, const int edge, const int part) {
    const problem *p = g->p;
    const float *weight = g->weight;
    vf sum[PLACES], bias = !g->bias ? vf_set(0) : part ? vf_load_part(g->bias, g->channels) : vf_load(g->bias);
    EB_UNROLL
    for (int n = 0; n < PLACES; n++) sum[n] = bias;
    for (int64_t i = 0; i < p->kernel_h; i++) {
        int64_t row = g->top + i * p->dilation_h, W = p->W;
        if (edge && (uint64_t)row >= (uint64_t)p->H) row = 0, W = 0;
        const float *line = g->x + (row * p->W + g->left) * p->C;
        if (KW) {
            vf taps[5];
            EB_UNROLL
            for (int j = 0; j < KW; j++) taps[j] = vf_load(weight + j * EB_VL);
            weight += KW * EB_VL;
            EB_UNROLL
            for (int q = 0; q < (PLACES - 1) * S + KW; q++) {
                vf value = load_x(g, line, q, W, edge, part);
                EB_UNROLL
                for (int j = 0; j < KW; j++)
                    if (q >= j && (q - j) % S == 0 && (q - j) / S < PLACES) sum[(q - j) / S] += value * taps[j];
            }
        } else {
            for (int64_t j = 0; j < p->kernel_w; j++, weight += EB_VL) {
                vf tap = vf_load(weight);
                EB_UNROLL
                for (int n = 0; n < PLACES; n++)
                    sum[n] += load_x(g, line, n * p->stride_w + j * p->dilation_w, W, edge, part) * tap;
            }
        }
    }
    /* Copies: what is stored could be any of these. */
    const int64_t places = g->places, channels = g->channels, C = p->C;
    const vf low = g->low, high = g->high;
    const float *residual = g->residual;
    float *y = g->y;
    EB_UNROLL
    for (int n = 0; n < PLACES; n++) {
        if (n >= places) break;
        if (residual) sum[n] += part ? vf_load_part(residual + n * C, channels) : vf_load(residual + n * C);
        sum[n] = vf_min(high, vf_max(low, sum[n]));
        if (part)
            vf_store_part(y + n * C, sum[n], channels);
        else
            vf_store(y + n * C, sum[n]);
    }
    if (g->activation) g->activation(y, places, channels, C);
}

typedef void (*group_function)(const group *g);
enum { INNER, EDGE, PART, KINDS };
#define GROUPS(name, KW, S)                                                     \
    static void name##_inner(const group *g) { sum_group(g, KW, S, 0, 0); }     \
    static void name##_edge(const group *g) { sum_group(g, KW, S, 1, 0); }      \
    static void name##_part(const group *g) { sum_group(g, KW, S, 1, 1); }      \
    static const group_function name[KINDS] = {name##_inner, name##_edge, name##_part};
GROUPS(any_kernel, 0, 0)
GROUPS(three_by_one, 3, 1)
GROUPS(three_by_two, 3, 2)
GROUPS(five_by_one, 5, 1)
GROUPS(five_by_two, 5, 2)

static const group_function *functions_of(const problem *p) {
    if (p->dilation_w != 1 || p->stride_w > 2) return any_kernel;
    if (p->kernel_w == 3) return p->stride_w == 1 ? three_by_one : three_by_two;
    if (p->kernel_w == 5) return p->stride_w == 1 ? five_by_one : five_by_two;
    return any_kernel;
}

/* Lines [first, last) of a picture's result, channels [c_begin, c_end); base: its first place and channel. */
static void run_lines(const group *base, int64_t first, int64_t last, int64_t c_begin, int64_t c_end) {
    group g = *base;
    const problem *p = g.p;
    const group_function *functions = functions_of(p);
    const int64_t taps = p->kernel_h * p->kernel_w, reach_h = (p->kernel_h - 1) * p->dilation_h;
    const int64_t reach_w = (PLACES - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w;
    for (int64_t line = first; line < last; line++) {
        g.top = line * p->stride_h - p->low_h;
        const int within = g.top >= 0 && g.top + reach_h < p->H;
        for (int64_t place = 0; place < p->out_w; place += PLACES) {
            g.left = place * p->stride_w - p->low_w;
            g.places = eb_min(PLACES, p->out_w - place);
            const int inner = within && g.left >= 0 && g.left + reach_w < p->W;
            const int64_t at = (line * p->out_w + place) * p->C;
            for (int64_t c = c_begin; c < c_end; c += EB_VL) {
                g.x = base->x + c;
                g.weight = base->weight + c * taps;
                if (g.bias) g.bias = base->bias + c;
                if (g.residual) g.residual = base->residual + at + c;
                g.y = base->y + at + c;
                g.channels = eb_min(EB_VL, p->C - c);
                functions[g.channels < EB_VL ? PART : inner ? INNER : EDGE](&g);
            }
        }
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const problem p = describe(node);
    const int64_t *at = node->private, kind = node->ints[EB_INT_CONV_ACTIVATION];
    const float *x = eb_data(eb_input(node, 0), bases), *weight = eb_data(eb_input(node, 1), bases);
    const float *bias = eb_is_present(node, 2) ? eb_data(eb_input(node, 2), bases) : NULL;
    const float *residual = eb_is_present(node, 3) ? eb_data(eb_input(node, 3), bases) : NULL;
    float *y = eb_data(eb_output(node), bases);
    const int is_clamp = kind == EB_CONV_ACTIVATION_RELU || kind == EB_CONV_ACTIVATION_RELU6;
    group g = {.p = &p,
               .x_end = x + eb_size(eb_input(node, 0)),
               .low = vf_set(is_clamp ? 0 : -INFINITY),
               .high = vf_set(kind == EB_CONV_ACTIVATION_RELU6 ? 6 : INFINITY),
               .activation = is_clamp ? NULL : activations[kind]};
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t block = tile / at[AT_VECTOR_TILES], picture = block / at[AT_LINE_TILES];
        int64_t first = block % at[AT_LINE_TILES] * at[AT_LINES], last = eb_min(p.out_h, first + at[AT_LINES]);
        int64_t c = tile % at[AT_VECTOR_TILES] * at[AT_VECTORS] * EB_VL, c_end = eb_min(p.C, c + at[AT_VECTORS] * EB_VL);
        const int64_t from = picture * p.out_h * p.out_w * p.C;
        g.x = x + picture * p.H * p.W * p.C;
        g.weight = weight;
        g.bias = bias;
        g.residual = residual ? residual + from : NULL;
        g.y = y + from;
        run_lines(&g, first, last, c, c_end);
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(conv, depthwise) = {plan, run, packed_bytes, pack};
