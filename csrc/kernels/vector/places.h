/* What convolutions share that are no product of matrices (depthwise_sums.h, grouped.c): channels-last images, vectors along the channels of the result.
 *
 *   group   PLACES neighbouring places of a line of the result, one vector of channels: their sums stay in registers over
 *           all taps.
 *
 * Elements of the padding are zeros that nothing is copied for. The weight is packed as [O / lanes][taps][C / groups][EB_VL],
 * where a vector has `lanes` channels: EB_VL, or those of as many whole groups as it holds.
 */
#ifndef EB_PLACES_H
#define EB_PLACES_H

#include "activation.h"
#include "convolution.h"
#include "packings.h"

enum { PLACES = 7 }; /* it divides the lines of 224 x 224 and its halves; sums, a row of 7 taps and x fit 16 registers */

/* Planes, lines and columns; a picture is one plane, a signal one line. */
typedef struct {
    int64_t D, H, W, C, O, out_d, out_h, out_w, kernel_d, kernel_h, kernel_w, stride_d, stride_h, stride_w;
    int64_t low_d, low_h, low_w, dilation_d, dilation_h, dilation_w;
    int64_t each_in, each_out; /* channels of x and of the result a group */
} problem;

/* Channels of the result that a vector of sums has. */
static inline int64_t lanes_of(int64_t each_out) { return each_out < EB_VL ? EB_VL / each_out * each_out : EB_VL; }

/* Whether addresses can be computed of all columns that taps read, those of the padding included: `load_x` and
 * `channel_at` compute the address before they compare the column with the line's ends. */
static inline int is_line_addressable(const eb_node *node, const problem *p) {
    const int64_t columns = p->low_w + (p->out_w + PLACES) * p->stride_w + p->kernel_w * p->dilation_w;
    return eb_is_proportionate(columns * p->C * 4, eb_operand_bytes(node));
}

/* --- packing ----------------------------------------------------------------------------------------------------------- */

static inline int64_t taps_of(const eb_tensor *w) {
    int64_t taps = 1;
    for (int a = 2; a < w->rank; a++) taps *= w->shape[a];
    return taps;
}

/* A piece is the channels of a vector, whose number is the only one of the layout; 0: EB_VL. */
static int64_t lanes_of_places(const int64_t *numbers) { return numbers[0] ? numbers[0] : EB_VL; }

static int64_t count_places(const eb_tensor *w, const int64_t *numbers) {
    return eb_ceil_div(w->shape[0], lanes_of_places(numbers));
}

static int64_t bytes_of_places(const eb_tensor *w, const int64_t *numbers) {
    return EB_MULTIPLY(count_places(w, numbers), EB_VL, w->shape[1], taps_of(w), 4);
}

static void pack_places(const eb_tensor *w, const int64_t *numbers, const void *source, void *destination, int64_t begin,
                        int64_t end) {
    const int64_t each_in = w->shape[1], taps = taps_of(w), lanes = lanes_of_places(numbers), size = EB_VL * taps * each_in;
    const int64_t first = begin * lanes, last = eb_min(w->shape[0], end * lanes);
    memset((float *)destination + begin * size, 0, (size_t)((end - begin) * size) * 4);
    for (int64_t tap = 0; tap < taps; tap++) {
        int64_t at = 0;
        for (int64_t a = w->rank - 1, left = tap; a >= 2; left /= w->shape[a], a--) at += left % w->shape[a] * w->stride[a];
        for (int64_t o = first; o < last; o++)
            for (int64_t c = 0; c < each_in; c++)
                ((float *)destination)[((o / lanes * taps + tap) * each_in + c) * EB_VL + o % lanes] =
                    ((const eb_float_unaligned *)source)[o * w->stride[0] + c * w->stride[1] + at];
    }
}

static void unpack_places(const eb_tensor *w, const int64_t *numbers, const void *packed, void *destination) {
    const int64_t each_in = w->shape[1], taps = taps_of(w), lanes = lanes_of_places(numbers);
    for (int64_t o = 0; o < w->shape[0]; o++)
        for (int64_t c = 0; c < each_in; c++)
            for (int64_t tap = 0; tap < taps; tap++)
                *((float *)destination + (o * each_in + c) * taps + tap) =
                    ((const float *)packed)[((o / lanes * taps + tap) * each_in + c) * EB_VL + o % lanes];
}

static const eb_packing places = {EB_PACKING_NAME("places"), bytes_of_places, count_places, pack_places, unpack_places};

/* --- a group ---------------------------------------------------------------------------------------------------------- */

typedef struct {
    const problem *p;
    const float *x, *x_end; /* the picture's first place, at the first channel that these sums read; the end of all x */
    const float *weight, *bias, *residual;
    float *y;
    vf low, high; /* of the result */
    eb_activation activation;
    int64_t channels; /* of the result: EB_VL of them, or fewer */
    int64_t front, top, left; /* of the window, less the padding */
    int64_t places;          /* PLACES, or fewer */
} group;

/* inner: every tap lies within x. edge: some may not. part: edge, and there may be fewer than EB_VL channels, of x or of the
 * result. */
enum { INNER, EDGE, PART, KINDS };
typedef void (*group_function)(const group *g);

EB_INLINE vf bias_of(const group *g, const int part) {
    return !g->bias ? vf_set(0) : part && g->channels < EB_VL ? vf_load_part(g->bias, g->channels) : vf_load(g->bias);
}

/* Rows of the kernel, plane after plane. */
EB_INLINE int64_t rows_of_kernel(const problem *p) { return p->kernel_d * p->kernel_h; }

/* Row `i` of them: the line of x that it lies on, from column `left` on. *W: its columns, 0 for one of zeros. */
EB_INLINE const float *line_of(const group *g, int64_t i, const int edge, int64_t *W) {
    const problem *p = g->p;
    int64_t plane = g->front, row = g->top + i * p->dilation_h;
    if (p->kernel_d > 1) {
        plane += i / p->kernel_h * p->dilation_d;
        row = g->top + i % p->kernel_h * p->dilation_h;
    }
    *W = p->W;
    if (edge && ((uint64_t)row >= (uint64_t)p->H || (uint64_t)plane >= (uint64_t)p->D)) plane = row = 0, *W = 0;
    return g->x + ((plane * p->H + row) * p->W + g->left) * p->C;
}

/* Residual and activation, and out. */
EB_INLINE void finish_group(const group *g, vf *sum, const int part) {
    /* Copies: what is stored could be any of these. */
    const int64_t places = g->places, channels = g->channels, O = g->p->O;
    const int is_part = part && channels < EB_VL;
    const vf low = g->low, high = g->high;
    const float *residual = g->residual;
    float *y = g->y;
    EB_UNROLL
    for (int n = 0; n < PLACES; n++) {
        if (n >= places) break;
        if (residual) sum[n] += is_part ? vf_load_part(residual + n * O, channels) : vf_load(residual + n * O);
        sum[n] = vf_min(high, vf_max(low, sum[n]));
        if (is_part)
            vf_store_part(y + n * O, sum[n], channels);
        else
            vf_store(y + n * O, sum[n]);
    }
    if (g->activation) g->activation(y, places, channels, O);
}

/* Lines [first, last) of a picture's result, those of its planes numbered through, channels [o_begin, o_end); base: its first place and channel. */
static inline void run_lines(const group *base, const group_function *functions, int64_t first, int64_t last, int64_t o_begin,
                      int64_t o_end) {
    group g = *base;
    const problem *p = g.p;
    const int64_t lanes = lanes_of(p->each_out), size = rows_of_kernel(p) * p->kernel_w * p->each_in * EB_VL;
    const float *weight = base->weight + o_begin / lanes * size;
    /* Whether the groups of a vector have fewer than EB_VL channels of x. */
    const int is_narrow = p->each_out < EB_VL && lanes / p->each_out * p->each_in < EB_VL;
    const int64_t reach_d = (p->kernel_d - 1) * p->dilation_d, reach_h = (p->kernel_h - 1) * p->dilation_h;
    const int64_t reach_w = (PLACES - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w;
    for (int64_t line = first; line < last; line++) {
        g.front = line / p->out_h * p->stride_d - p->low_d;
        g.top = line % p->out_h * p->stride_h - p->low_h;
        const int within = g.front >= 0 && g.front + reach_d < p->D && g.top >= 0 && g.top + reach_h < p->H;
        for (int64_t place = 0; place < p->out_w; place += PLACES) {
            g.left = place * p->stride_w - p->low_w;
            g.places = eb_min(PLACES, p->out_w - place);
            const int inner = within && g.left >= 0 && g.left + reach_w < p->W;
            const int64_t at = (line * p->out_w + place) * p->O;
            g.weight = weight;
            for (int64_t o = o_begin; o < o_end; o += lanes, g.weight += size) {
                g.x = base->x + (p->each_out == 1 ? o : o / p->each_out) * p->each_in;
                if (g.bias) g.bias = base->bias + o;
                if (g.residual) g.residual = base->residual + at + o;
                g.y = base->y + at + o;
                g.channels = eb_min(lanes, o_end - o);
                functions[g.channels < EB_VL || is_narrow ? PART : inner ? INNER : EDGE](&g);
            }
        }
    }
}

#endif
