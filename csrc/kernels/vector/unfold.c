/* conv of images with their channels first, as graphs have them before `channels_last`, of any groups, and by a weight that
 * may be computed. It is a product of matrices the other way round from conv.c: rows are the channels of the result, columns
 * its places, k runs over the channels of a group, then over the taps of the kernel. The weight is read as it lies; what
 * EB_NR places read of x is unfolded into a panel (gemm.h), whose zeros of the padding count. x may have any strides.
 *
 *   tile     some panels of places of one group of a picture by some of the group's channels. Where there are few panels,
 *            channels are shared out, and each of these tiles unfolds for itself
 */
#include "convolution.h"
#include "gemm.h"

typedef struct {
    int64_t panels;      /* panels a tile */
    int64_t panel_tiles; /* tiles over panels */
    int64_t row_tiles;   /* tiles over channels */
} tiling;
EB_NODE_PLAN(tiling)

typedef struct {
    int64_t groups, each_in, each_out; /* channels of x and of the result, a group */
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], low[AXES], dilation[AXES];
    int64_t x_step[AXES], x_channel, x_picture; /* elements of x from one to the next */
    int64_t places, panels, depth;              /* of a picture; columns of EB_NR of them; k */
} problem;

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_CONV_X), *w = eb_input(node, EB_IN_CONV_WEIGHT), *y = eb_output(node);
    const int64_t *ints = node->ints, groups = ints[EB_INT_CONV_GROUPS];
    problem p = {.groups = groups, .each_in = w->shape[1], .each_out = w->shape[0] / groups, .places = 1,
                 .x_channel = x->stride[1], .x_picture = x->stride[0], .depth = w->shape[1]};
    for (int a = 0; a < AXES; a++) {
        const int own = a + x->rank - 2 - AXES, present = own >= 0; /* one axis is columns, which are neighbours here */
        p.in[a] = present ? x->shape[own + 2] : 1;
        p.out[a] = present ? y->shape[own + 2] : 1;
        p.kernel[a] = present ? w->shape[own + 2] : 1;
        p.x_step[a] = present ? x->stride[own + 2] : 0;
        p.stride[a] = present ? ints[EB_INT_CONV_STRIDE + own] : 1;
        p.dilation[a] = present ? ints[EB_INT_CONV_DILATION + own] : 1;
        p.low[a] = present ? ints[EB_INT_CONV_LOW + own] : 0;
        p.places *= p.out[a];
        p.depth *= p.kernel[a];
    }
    p.panels = eb_ceil_div(p.places, EB_NR);
    return p;
}

/* Panels that make a tile worth handing out; channels shared out where that leaves few tiles. */
static void cut(eb_node *node, const problem *p) {
    enum { TILES = 8, WORTH = 512 * 1024 /* multiply-adds: about 10 microseconds */ };
    const int64_t slices = eb_input(node, EB_IN_CONV_X)->shape[0] * p->groups, panel = p->each_out * p->depth * EB_NR;
    tiling *at = edit_tiling(node);
    at->panels = eb_max(1, eb_min(p->panels, WORTH / eb_max(1, panel)));
    at->panel_tiles = eb_ceil_div(p->panels, at->panels);
    const int64_t others = slices * at->panel_tiles, heights = eb_ceil_div(p->each_out, EB_MR);
    at->row_tiles = eb_min(heights, eb_ceil_div(TILES, others));
    node->tiles = others * at->row_tiles;
}

static eb_status plan(eb_node *node) {
    if (node->ints[EB_INT_CONV_CHANNELS_LAST] || node->ints[EB_INT_CONV_GROUPS] < 1) return EB_NOT_APPLICABLE;
    if (eb_input(node, EB_IN_CONV_WEIGHT)->is_packed || !eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    for (int i = 1; i < node->n_inputs; i++)
        if (eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    if (eb_size(eb_output(node)) == 0) return EB_OK;
    const problem p = describe(node);
    cut(node, &p);
    node->scratch_bytes = p.depth * EB_NR * (int64_t)sizeof(float);
    return EB_OK;
}

/* --- a panel ------------------------------------------------------------------------------------------------------ */

/* Places of a panel that lie in one row of the result: they read one row of x a tap. */
typedef struct {
    int64_t first[AXES]; /* what the first of them reads with the first tap; the next ones a stride further */
    int64_t column, columns; /* of the panel */
} span;

static int spans_of(const problem *p, int64_t place, int64_t columns, span *spans) {
    int count = 0;
    for (int64_t done = 0; done < columns; count++) {
        int64_t left = place + done, at[AXES];
        for (int a = COLUMN; a >= PLANE; left /= p->out[a], a--) at[a] = left % p->out[a];
        span *s = &spans[count];
        for (int a = 0; a < AXES; a++) s->first[a] = at[a] * p->stride[a] - p->low[a];
        s->column = done;
        s->columns = eb_min(columns - done, p->out[COLUMN] - at[COLUMN]);
        done += s->columns;
    }
    return count;
}

/* Floats that lie `step` apart. */
static void copy_floats(float *to, const float *from, int64_t step, int64_t count) {
    int64_t n = 0;
    for (; step == 1 && n + EB_VL <= count; n += EB_VL) vf_store(to + n, vf_load(from + n));
    for (; n < count; n++) to[n] = from[n * step];
}

/* What a span reads of a row of x from place `first` on, zeros where that is outside. */
static void unfold_row(const problem *p, const float *x, int64_t first, int64_t count, float *to) {
    const int64_t stride = p->stride[COLUMN];
    int64_t begin, end;
    eb_clip(first, stride, p->in[COLUMN], count, &begin, &end);
    const int64_t step = end - begin > 1 ? stride * p->x_step[COLUMN] : 0; /* of a single place it may overflow */
    for (int64_t n = 0; n < begin; n++) to[n] = 0;
    if (begin < end) copy_floats(to + begin, x + (first + begin * stride) * p->x_step[COLUMN], step, end - begin);
    for (int64_t n = end; n < count; n++) to[n] = 0;
}

/* One tap of one channel: a row of the panel. */
static void unfold_tap(const problem *p, const float *x, const int64_t *tap, const span *spans, int count, float *row) {
    for (int i = 0; i < count; i++) {
        const span *s = &spans[i];
        int64_t at[AXES], inside = 1;
        for (int a = 0; a < AXES; a++) {
            at[a] = s->first[a] + tap[a] * p->dilation[a];
            inside &= a == COLUMN || (at[a] >= 0 && at[a] < p->in[a]);
        }
        if (inside)
            unfold_row(p, x + at[PLANE] * p->x_step[PLANE] + at[ROW] * p->x_step[ROW], at[COLUMN], s->columns, row + s->column);
        else
            memset(row + s->column, 0, (size_t)s->columns * sizeof(float));
    }
}

/* x: the group's first channel of a picture. */
static void unfold(const problem *p, const float *x, int64_t place, int64_t columns, float *panel) {
    span spans[EB_NR];
    const int count = spans_of(p, place, columns, spans);
    if (columns < EB_NR) memset(panel, 0, (size_t)(p->depth * EB_NR) * sizeof(float));
    for (int64_t c = 0; c < p->each_in; c++, x += p->x_channel) {
        int64_t tap[AXES];
        for (tap[PLANE] = 0; tap[PLANE] < p->kernel[PLANE]; tap[PLANE]++)
            for (tap[ROW] = 0; tap[ROW] < p->kernel[ROW]; tap[ROW]++)
                for (tap[COLUMN] = 0; tap[COLUMN] < p->kernel[COLUMN]; tap[COLUMN]++, panel += EB_NR)
                    unfold_tap(p, x, tap, spans, count, panel);
    }
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* Bias, one number a row here, and residual into y, where the product adds to them. Both may be NULL. */
static void begin_rows(float *y, const float *bias, const float *residual, int64_t rows, int64_t columns, int64_t ld) {
    for (int64_t m = 0; m < rows; m++, y += ld) {
        const float of_row = bias ? bias[m] : 0;
        for (int64_t n = 0; n < columns; n++) y[n] = of_row + (residual ? residual[m * ld + n] : 0);
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const problem p = describe(node);
    const tiling *at = tiling_of(node);
    const int64_t kind = node->ints[EB_INT_CONV_ACTIVATION];
    const float *bias = eb_optional_data(node, EB_IN_CONV_BIAS, bases);
    const float *residual = eb_optional_data(node, EB_IN_CONV_RESIDUAL, bases);
    const float *x = eb_data(eb_input(node, EB_IN_CONV_X), bases);
    const float *w = eb_data(eb_input(node, EB_IN_CONV_WEIGHT), bases);
    float *y = eb_data(eb_output(node), bases), *panel = scratch;
    const float clamp = clamp_of(kind);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t block = tile / at->row_tiles, slice = block / at->panel_tiles;
        const int64_t picture = slice / p.groups, group = slice % p.groups;
        const int64_t first = row_tile_begin(p.each_out, at->row_tiles, tile % at->row_tiles);
        const int64_t rows = row_tile_begin(p.each_out, at->row_tiles, tile % at->row_tiles + 1) - first;
        const int64_t channel = group * p.each_out + first, from = slice * p.each_out + first;
        const int64_t start = block % at->panel_tiles * at->panels * EB_NR;
        const int64_t stop = eb_min(p.places, start + at->panels * EB_NR);
        for (int64_t place = start; place < stop; place += EB_NR) {
            const int64_t columns = eb_min(EB_NR, stop - place);
            float *to = y + from * p.places + place;
            unfold(&p, x + picture * p.x_picture + group * p.each_in * p.x_channel, place, columns, panel);
            if (bias || residual)
                begin_rows(to, bias ? bias + channel : NULL, residual ? residual + from * p.places + place : NULL, rows,
                           columns, p.places);
            const eb_product product = {.M = rows,
                                        .columns = columns,
                                        .K = p.depth,
                                        .x = w + channel * p.depth,
                                        .x_row = p.depth,
                                        .x_k = 1,
                                        .b = panel,
                                        .ldb = EB_NR,
                                        .y = to,
                                        .ldy = p.places,
                                        .alpha = 1,
                                        .residual = bias || residual ? to : NULL,
                                        .ldr = p.places,
                                        .activation = clamp > 0 ? NULL : activations[kind],
                                        .clamp = clamp};
            multiply_panel(&product);
        }
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(conv, unfold) = {plan, run};
