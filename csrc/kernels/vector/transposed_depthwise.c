/* conv_transpose whose every channel is alone: groups, channels of x and channels of the result are one number. Vectors lie
 * along the channels. Neighbouring places of a span (phases.h) see the same taps. Their sums stay in registers, and a tap is
 * loaded once for all of them.
 *
 *   tile    lines of a plane of the result; of these, phase after phase, the places that belong to it
 */
#include "phases.h"
#include "places.h"

typedef struct {
    int64_t lines;      /* lines of the result a tile */
    int64_t line_tiles; /* tiles a plane */
} tiling;
EB_NODE_PLAN(tiling)

/* Lines of about so many products that a tile is worth handing out. Products of a place are no more than taps. */
static void cut(eb_node *node, const transposed *p, int64_t products) {
    enum { WORTH = 1 << 16 };
    tiling *at = edit_tiling(node);
    const int64_t planes = eb_input(node, EB_IN_CONV_TRANSPOSE_X)->shape[0] * p->out[PLANE];
    const int64_t each = products / (planes * p->out[ROW]) + p->groups * p->out[COLUMN];
    const int64_t lines = eb_max(1, eb_min(p->out[ROW], WORTH / each));
    at->line_tiles = eb_ceil_div(p->out[ROW], lines);
    at->lines = eb_ceil_div(p->out[ROW], at->line_tiles);
    node->tiles = planes * at->line_tiles;
}

static eb_status plan(eb_node *node) {
    const eb_tensor *w = eb_input(node, EB_IN_CONV_TRANSPOSE_WEIGHT);
    if (!is_packable(node) || w->shape[1] != 1 || node->ints[EB_INT_CONV_TRANSPOSE_GROUPS] != w->shape[0])
        return EB_NOT_APPLICABLE;
    eb_status status = check_conv_operands(node);
    if (status != EB_OK || eb_size(eb_output(node)) == 0) return status;
    const transposed p = describe_transposed(node);
    const int64_t products = EB_MULTIPLY(eb_input(node, EB_IN_CONV_TRANSPOSE_X)->shape[0], p.groups, pairs_of(&p));
    cut(node, &p, products);
    /* Each tile visits every phase. */
    const int64_t visited = eb_multiply(node->tiles, visit_bytes(&p));
    if (!eb_is_proportionate(visited, eb_add(eb_operand_bytes(node), products))) return EB_NOT_APPLICABLE;
    node->operations = eb_multiply(2, products);
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const eb_tensor *w = eb_input(node, EB_IN_CONV_TRANSPOSE_WEIGHT);
    (void)numbers;
    if (input != EB_IN_CONV_TRANSPOSE_WEIGHT || !is_packable(node) || w->shape[1] != 1) return NULL;
    return node->ints[EB_INT_CONV_TRANSPOSE_GROUPS] == w->shape[0] ? &places : NULL;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* What the places of a tile have in common. */
typedef struct {
    const transposed *p;
    phase f[AXES];
    span s[AXES];
    const float *x;                  /* the picture's */
    const float *weight, *bias, *residual;
    float *y;                        /* of the picture, as residual */
    group out;                       /* for `finish_group` */
} work;

/* Up to N places from v on, of a vector of channels from `o` on. */
EB_INLINE void sum_places(const work *k, int64_t v, int64_t o, const int N, const int part) {
    const transposed *p = k->p;
    const phase *f = k->f;
    const int64_t C = p->groups, channels = eb_min(EB_VL, C - o);
    const float *kernel = k->weight + o * p->kernel[PLANE] * p->kernel[ROW] * p->kernel[COLUMN];
    group out = k->out;
    if (k->bias) out.bias = k->bias + o;
    out.channels = channels, out.places = N;
    vf sum[PLACES];
    EB_UNROLL
    for (int n = 0; n < N; n++) sum[n] = bias_of(&out, part);
    for (int64_t i = k->s[PLANE].tap; i < k->s[PLANE].tap_end; i++)
        for (int64_t j = k->s[ROW].tap; j < k->s[ROW].tap_end; j++) {
            const int64_t plane = k->s[PLANE].begin + f[PLANE].first + i * f[PLANE].gap;
            const int64_t row = k->s[ROW].begin + f[ROW].first + j * f[ROW].gap;
            const float *line = k->x + (plane * p->in[ROW] + row) * p->in[COLUMN] * C + o;
            const float *taps = kernel + ((f[PLANE].tap - i * f[PLANE].apart) * p->kernel[ROW] + f[ROW].tap - j * f[ROW].apart) *
                                             p->kernel[COLUMN] * EB_VL;
            for (int64_t c = k->s[COLUMN].tap; c < k->s[COLUMN].tap_end; c++) {
                const float *at = line + (v + f[COLUMN].first + c * f[COLUMN].gap) * C;
                const vf tap = vf_load(taps + (f[COLUMN].tap - c * f[COLUMN].apart) * EB_VL);
                EB_UNROLL
                for (int n = 0; n < N; n++) sum[n] += (part ? vf_load_part(at + n * C, channels) : vf_load(at + n * C)) * tap;
            }
        }
    const int64_t place[AXES] = {k->s[PLANE].begin, k->s[ROW].begin, v};
    int64_t to = 0;
    for (int a = PLANE; a < AXES; a++) to = to * p->out[a] + place[a] * p->stride[a] + f[a].remainder - p->low[a];
    out.y = k->y + to * C + o;
    if (k->residual) out.residual = k->residual + to * C + o;
    finish_group(&out, sum, part);
}

/* The places of a span of each axis; those of PLANE and ROW are one place each. */
static void run_span(const work *k) {
    const int64_t C = k->p->groups, whole = C / EB_VL * EB_VL;
    int64_t v = k->s[COLUMN].begin;
    for (; v + PLACES <= k->s[COLUMN].end; v += PLACES) {
        for (int64_t o = 0; o < whole; o += EB_VL) sum_places(k, v, o, PLACES, 0);
        if (whole < C) sum_places(k, v, whole, PLACES, 1);
    }
    for (; v < k->s[COLUMN].end; v++) {
        for (int64_t o = 0; o < whole; o += EB_VL) sum_places(k, v, o, 1, 0);
        if (whole < C) sum_places(k, v, whole, 1, 1);
    }
}

/* Lines [first, last) of plane `plane` of the result. */
static void run_lines_of(work *k, int64_t plane, int64_t first, int64_t last) {
    const transposed *p = k->p;
    const int64_t place = plane + p->low[PLANE];
    k->f[PLANE] = phase_of(p, PLANE, place % p->stride[PLANE]);
    k->s[PLANE] = reach(&k->f[PLANE], p->in[PLANE], place / p->stride[PLANE]);
    for (int64_t i = 0; i < p->stride[ROW] * p->stride[COLUMN]; i++) {
        k->f[ROW] = phase_of(p, ROW, i / p->stride[COLUMN]);
        k->f[COLUMN] = phase_of(p, COLUMN, i % p->stride[COLUMN]);
        const phase *row = &k->f[ROW], *column = &k->f[COLUMN];
        const int64_t begin = eb_ceil_div(eb_max(0, first + p->low[ROW] - row->remainder), p->stride[ROW]);
        for (int64_t v = begin; v * p->stride[ROW] + row->remainder - p->low[ROW] < last; v++) {
            k->s[ROW] = reach(row, p->in[ROW], v);
            for (int64_t c = column->begin; c < column->end; c = k->s[COLUMN].end) {
                k->s[COLUMN] = span_at(column, p->in[COLUMN], c, column->end);
                if (k->s[PLANE].tap == k->s[PLANE].tap_end || k->s[ROW].tap == k->s[ROW].tap_end)
                    k->s[COLUMN].tap = k->s[COLUMN].tap_end = 0; /* no address is computed of what no tap reaches */
                run_span(k);
            }
        }
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const transposed p = describe_transposed(node);
    const tiling *at = tiling_of(node);
    const int64_t x_size = p.in[PLANE] * p.in[ROW] * p.in[COLUMN] * p.groups;
    const int64_t y_size = p.out[PLANE] * p.out[ROW] * p.out[COLUMN] * p.groups;
    const int64_t kind = node->ints[EB_INT_CONV_TRANSPOSE_ACTIVATION];
    const float *x = eb_data(eb_input(node, EB_IN_CONV_TRANSPOSE_X), bases);
    const float *residual = eb_optional_data(node, EB_IN_CONV_TRANSPOSE_RESIDUAL, bases), clamp = clamp_of(kind);
    float *y = eb_data(eb_output(node), bases);
    /* The distance of two places of a phase is the only number of a problem that `finish_group` reads. */
    const problem spread = {.O = p.stride[COLUMN] * p.groups};
    work k = {.p = &p,
              .weight = eb_data(eb_input(node, EB_IN_CONV_TRANSPOSE_WEIGHT), bases),
              .bias = eb_optional_data(node, EB_IN_CONV_TRANSPOSE_BIAS, bases),
              .out = {.p = &spread,
                      .low = vf_set(clamp > 0 ? 0 : -INFINITY),
                      .high = vf_set(clamp > 0 ? clamp : INFINITY),
                      .activation = clamp > 0 ? NULL : activations[kind]}};
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t slice = tile / at->line_tiles, picture = slice / p.out[PLANE], first = tile % at->line_tiles * at->lines;
        k.x = x + picture * x_size;
        k.y = y + picture * y_size;
        k.residual = residual ? residual + picture * y_size : NULL;
        run_lines_of(&k, slice % p.out[PLANE], first, eb_min(p.out[ROW], first + at->lines));
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(conv_transpose, depthwise) = {plan, run, choose_packing};
