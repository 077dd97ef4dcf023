/* conv_transpose as convolutions in steps of one. Element i of x reaches places stride * i + dilation * tap, so along an axis
 * a place of the result sees every stride-th tap only. Places that leave one remainder see the same taps: they are a `phase`.
 * Its places are numbered by v, place = stride * v + remainder - low:
 *
 *   kernel 4, stride 2    remainder 0:  taps 2 0 of x[v - 1], x[v]      y  0 1 0 1 0 1 0     which phase
 *                         remainder 1:  taps 3 1                           a b c ...
 *
 * A phase's places are cut into `span`s that the same taps reach: near the ends of x some would lie outside, where there is
 * nothing to add, not even zeros (an infinite weight would make NaN of them).
 */
#ifndef EB_PHASES_H
#define EB_PHASES_H

#include "convolution.h"
#include "gemm.h"

typedef struct {
    int64_t groups, each_in, each_out, panels; /* channels of x and of the result, and panels, a group */
    int64_t kernel[AXES], stride[AXES], low[AXES], dilation[AXES], in[AXES], out[AXES];
    int64_t phases, taps; /* of all axes together */
} transposed;

/* The numbers of the packing: what of the attributes decides how phases lie. */
enum { GROUPS, STRIDE, DILATION = STRIDE + AXES, NUMBERS = DILATION + AXES };
_Static_assert(NUMBERS <= sizeof((eb_layout *)0)->numbers / sizeof(int64_t), "a layout has too few numbers for phases");

static inline void numbers_of(const eb_node *node, int64_t *numbers) {
    const int rank = eb_input(node, EB_IN_CONV_TRANSPOSE_WEIGHT)->rank;
    const int64_t *ints = node->ints;
    numbers[GROUPS] = ints[EB_INT_CONV_TRANSPOSE_GROUPS];
    for (int a = 0; a < AXES; a++) {
        const int own = axis_of(rank, a);
        numbers[STRIDE + a] = own >= 0 ? ints[EB_INT_CONV_TRANSPOSE_STRIDE + own] : 1;
        numbers[DILATION + a] = own >= 0 ? ints[EB_INT_CONV_TRANSPOSE_DILATION + own] : 1;
    }
}

/* All but the images and what they are cut by. */
static inline transposed describe_weight(const eb_tensor *w, const int64_t *numbers) {
    const int64_t groups = numbers[GROUPS];
    transposed p = {.groups = groups, .each_in = w->shape[0] / groups, .each_out = w->shape[1], .phases = 1, .taps = 1};
    p.panels = eb_ceil_div(p.each_out, EB_NR);
    for (int a = 0; a < AXES; a++) {
        const int own = axis_of(w->rank, a);
        p.kernel[a] = own >= 0 ? w->shape[own + 2] : 1;
        p.stride[a] = numbers[STRIDE + a];
        p.dilation[a] = numbers[DILATION + a];
        p.phases *= p.stride[a];
        p.taps *= p.kernel[a];
    }
    return p;
}

/* Time to visit every phase, in bytes (checked.h): `phase_of` divides once for each tap of an axis. */
static inline int64_t visit_bytes(const transposed *p) {
    return EB_MULTIPLY(p->phases, p->kernel[PLANE] + p->kernel[ROW] + p->kernel[COLUMN], EB_STEP_BYTES);
}

/* True if the weight can be packed: the phases are not far more than its elements. Long strides make many phases, most of
 * them empty. */
static inline int is_packable(const eb_node *node) {
    const eb_tensor *w = eb_input(node, EB_IN_CONV_TRANSPOSE_WEIGHT);
    const int64_t *ints = node->ints;
    if (!ints[EB_INT_CONV_TRANSPOSE_CHANNELS_LAST] || ints[EB_INT_CONV_TRANSPOSE_GROUPS] < 1) return 0;
    int64_t numbers[NUMBERS];
    numbers_of(node, numbers);
    const transposed p = describe_weight(w, numbers);
    return eb_is_proportionate(visit_bytes(&p), eb_size(w) * 4);
}

static inline transposed describe_transposed(const eb_node *node) {
    int64_t numbers[NUMBERS];
    numbers_of(node, numbers);
    transposed p = describe_weight(eb_input(node, EB_IN_CONV_TRANSPOSE_WEIGHT), numbers);
    const eb_tensor *x = eb_input(node, EB_IN_CONV_TRANSPOSE_X), *y = eb_output(node);
    for (int a = 0; a < AXES; a++) {
        int own = axis_of(x->rank, a);
        p.low[a] = own >= 0 ? node->ints[EB_INT_CONV_TRANSPOSE_LOW + own] : 0;
        p.in[a] = own >= 0 ? x->shape[own + 1] : 1;
        p.out[a] = own >= 0 ? y->shape[own + 1] : 1;
    }
    return p;
}

/* --- phases and spans of an axis ---------------------------------------------------------------------------------- */

typedef struct {
    int64_t remainder, taps;
    int64_t before;      /* taps of smaller remainders */
    int64_t tap, apart;  /* the first tap's place in the kernel; the next ones lie so far in front of it */
    int64_t first, gap;  /* it reads x[v + first], the next ones x[v + first + gap], ... */
    int64_t begin, end;  /* of v */
} phase;

static inline int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

static inline phase phase_of(const transposed *p, int a, int64_t remainder) {
    const int64_t stride = p->stride[a], dilation = p->dilation[a], common = common_divisor(stride, dilation);
    phase f = {.remainder = remainder, .apart = stride / common, .gap = dilation / common};
    for (int64_t tap = 0; tap < p->kernel[a]; tap++) {
        const int64_t left = tap * dilation % stride;
        f.before += left < remainder;
        if (left == remainder) f.taps++, f.tap = tap;
    }
    if (f.taps) f.first = (remainder - f.tap * dilation) / stride;
    f.begin = eb_ceil_div(p->low[a] - remainder, stride); /* above -1, which C rounds to 0 */
    f.end = eb_ceil_div(p->out[a] + p->low[a] - remainder, stride);
    return f;
}

/* Phase `number` of all axes together, one an axis. */
static inline void phases_of(const transposed *p, int64_t number, phase *f) {
    for (int a = COLUMN; a >= PLANE; number /= p->stride[a], a--) f[a] = phase_of(p, a, number % p->stride[a]);
}

/* Places [begin, end) of v that taps [tap, tap_end) reach. */
typedef struct {
    int64_t begin, end, tap, tap_end;
} span;

/* One place; no taps are [0, 0). */
static inline span reach(const phase *f, int64_t in, int64_t v) {
    const int64_t place = v + f->first;
    int64_t tap = place < 0 ? eb_ceil_div(-place, f->gap) : 0;
    int64_t end = place < in ? eb_min(f->taps, eb_ceil_div(in - place, f->gap)) : 0;
    return tap < end ? (span){v, v + 1, tap, end} : (span){v, v + 1, 0, 0};
}

/* From `v` on, as far as the taps stay the same, up to `limit`. */
static inline span span_at(const phase *f, int64_t in, int64_t v, int64_t limit) {
    span s = reach(f, in, v);
    for (; s.end < limit; s.end++) {
        span next = reach(f, in, s.end);
        if (next.tap != s.tap || next.tap_end != s.tap_end) break;
    }
    return s;
}

/* Places v of an axis that a phase has at most. */
static inline int64_t most_places(const transposed *p, int a) { return eb_ceil_div(p->out[a], p->stride[a]); }

/* Multiply-adds of one channel of x and one of the result of a group, over a picture. */
static inline int64_t pairs_of(const transposed *p) {
    int64_t pairs = 1;
    for (int a = 0; a < AXES; a++) {
        int64_t count = 0, begin, end;
        for (int64_t tap = 0; tap < p->kernel[a]; tap++) {
            eb_clip(tap * p->dilation[a] - p->low[a], p->stride[a], p->out[a], p->in[a], &begin, &end);
            count += end - begin;
        }
        pairs = eb_multiply(pairs, count);
    }
    return pairs;
}

#endif
