/* selective_scan: vectors along the channels, which lie side by side. A vector of channels walks the whole sequence; its
 * states, one vector each, and the rates of their decay stay in the first-level cache, b and c are broadcast.
 *
 * What it costs is the exponential a state and position. Where every rate is at most 0 and the steps are softplus, which
 * trained models have, the exponent is at most 0 and is scaled by log2 e beforehand (a channel of 16 states: 18
 * instructions a state in place of 28).
 */
#include "../../ops.h"
#include "logarithm.h"

enum {
    X = EB_IN_SELECTIVE_SCAN_X,
    DELTA = EB_IN_SELECTIVE_SCAN_DELTA,
    A = EB_IN_SELECTIVE_SCAN_A,
    B = EB_IN_SELECTIVE_SCAN_B,
    C = EB_IN_SELECTIVE_SCAN_C,
    SKIP = EB_IN_SELECTIVE_SCAN_SKIP,
    GATE = EB_IN_SELECTIVE_SCAN_GATE,
    BIAS = EB_IN_SELECTIVE_SCAN_BIAS
};
enum { TILE_STATES = 1 << 16 };         /* states times positions times channels: twenty microseconds or so */
typedef struct {
    int64_t channels;      /* channels a tile */
    int64_t channel_tiles; /* tiles a sequence */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, X);
    const int64_t D = x->shape[2], work = x->shape[1] * eb_max(1, eb_input(node, A)->shape[1]);
    for (int i = X; i <= BIAS; i++) {
        const eb_tensor *t = eb_input(node, i);
        if (!eb_is_present(node, i)) continue;
        if (i != A && i != B && i != C && D > 1 && t->stride[t->rank - 1] != 1) return EB_NEEDS_DENSE;
    }
    if (!eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    int64_t vectors = eb_max(1, TILE_STATES / eb_max(1, work) / EB_VL);
    edit_tiling(node)->channels = vectors * EB_VL;
    edit_tiling(node)->channel_tiles = eb_ceil_div(D, vectors * EB_VL);
    node->tiles = eb_size(x) ? x->shape[0] * tiling_of(node)->channel_tiles : 0;
    node->scratch_bytes = 2 * eb_input(node, A)->shape[1] * EB_VL * 4;
    return EB_OK;
}

/* One vector of channels of one sequence. Rows are positions: `*_row` elements apart. */
typedef struct {
    const float *x, *delta, *b, *c, *skip, *gate, *bias;
    float *y;
    const float *rates; /* [states][EB_VL] */
    float *h;           /* the same */
    int64_t x_row, delta_row, b_row, c_row, gate_row, y_row, b_state, c_state;
    int64_t sequence, states, channels; /* channels: EB_VL, or fewer */
} lane_scan;

EB_INLINE vf load(const float *p, int64_t channels, const int part) { return part ? vf_load_part(p, channels) : vf_load(p); }

EB_INLINE vf vf_softplus(vf x) { return vf_select(x > 20.0f, x, vf_log1p(vf_exp(vf_min(vf_set(20.0f), x)))); }

/* decays: no exponent is over 0, and rates are scaled by log2 e. */
EB_INLINE void walk(const lane_scan *s, const int softplus, const int decays, const int part) {
    const int64_t n = s->channels;
    const vf none = {0}, bias = s->bias ? load(s->bias, n, part) : none, skip = s->skip ? load(s->skip, n, part) : none;
    float *h = s->h;
    for (int64_t i = 0; i < s->states; i++) vf_store(h + i * EB_VL, none);
    for (int64_t t = 0; t < s->sequence; t++) {
        const float *b = s->b + t * s->b_row, *c = s->c + t * s->c_row;
        vf x = load(s->x + t * s->x_row, n, part), step = load(s->delta + t * s->delta_row, n, part) + bias;
        if (softplus) step = vf_softplus(step);
        vf taken = step * x, y = s->skip ? skip * x : none;
        for (int64_t i = 0; i < s->states; i++) {
            vf exponent = step * vf_load(s->rates + i * EB_VL);
            vf decay = decays ? vf_exp2_nonpositive(exponent) : vf_exp(exponent);
            vf state = decay * vf_load(h + i * EB_VL) + taken * b[i * s->b_state];
            vf_store(h + i * EB_VL, state);
            y += state * c[i * s->c_state];
        }
        if (s->gate) y *= vf_silu(load(s->gate + t * s->gate_row, n, part));
        if (part)
            vf_store_part(s->y + t * s->y_row, y, n);
        else
            vf_store(s->y + t * s->y_row, y);
    }
}

#define WALK(name, softplus, decays)                                  \
    static void name(const lane_scan *s) {                            \
        if (s->channels < EB_VL)                                      \
            walk(s, softplus, decays, 1);                             \
        else                                                          \
            walk(s, softplus, decays, 0);                             \
    }
WALK(walk_any, 0, 0)
WALK(walk_softplus, 1, 0)
WALK(walk_softplus_decaying, 1, 1)

/* The rates of channels `first` and on, as vectors; whether none is over 0. */
static int gather_rates(const eb_tensor *a, const float *data, int64_t first, int64_t channels, float *rates) {
    int decays = 1;
    for (int64_t i = 0; i < a->shape[1]; i++)
        for (int64_t lane = 0; lane < EB_VL; lane++) {
            const float rate = lane < channels ? data[(first + lane) * a->stride[0] + i * a->stride[1]] : 0;
            rates[i * EB_VL + lane] = rate;
            decays &= rate <= 0;
        }
    return decays;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *in[BIAS + 1];
    const float *data[BIAS + 1];
    for (int i = X; i <= BIAS; i++) {
        in[i] = eb_input(node, i);
        data[i] = eb_is_present(node, i) ? eb_data(in[i], bases) : NULL;
    }
    const eb_tensor *y = eb_output(node);
    const int64_t D = y->shape[2], states = in[A]->shape[1], width = tiling_of(node)->channels;
    float *rates = scratch, *h = rates + states * EB_VL, *out = eb_data(y, bases);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t n = tile / tiling_of(node)->channel_tiles, from = tile % tiling_of(node)->channel_tiles * width;
        for (int64_t d = from; d < eb_min(D, from + width); d += EB_VL) {
            const lane_scan s = {.x = data[X] + n * in[X]->stride[0] + d,
                                 .delta = data[DELTA] + n * in[DELTA]->stride[0] + d,
                                 .b = data[B] + n * in[B]->stride[0],
                                 .c = data[C] + n * in[C]->stride[0],
                                 .skip = data[SKIP] ? data[SKIP] + d : NULL,
                                 .gate = data[GATE] ? data[GATE] + n * in[GATE]->stride[0] + d : NULL,
                                 .bias = data[BIAS] ? data[BIAS] + d : NULL,
                                 .y = out + n * y->stride[0] + d,
                                 .rates = rates,
                                 .h = h,
                                 .x_row = in[X]->stride[1],
                                 .delta_row = in[DELTA]->stride[1],
                                 .b_row = in[B]->stride[1],
                                 .c_row = in[C]->stride[1],
                                 .gate_row = data[GATE] ? in[GATE]->stride[1] : 0,
                                 .y_row = y->stride[1],
                                 .b_state = in[B]->stride[2],
                                 .c_state = in[C]->stride[2],
                                 .sequence = y->shape[1],
                                 .states = states,
                                 .channels = eb_min(EB_VL, D - d)};
            const int decays = gather_rates(in[A], data[A], d, s.channels, rates);
            if (!node->ints[EB_INT_SELECTIVE_SCAN_SOFTPLUS]) {
                walk_any(&s);
            } else if (!decays) {
                walk_softplus(&s);
            } else {
                for (int64_t i = 0; i < states * EB_VL; i += EB_VL) vf_store(rates + i, vf_load(rates + i) * 1.44269504f);
                walk_softplus_decaying(&s);
            }
        }
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(selective_scan, vector) = {plan, run};
