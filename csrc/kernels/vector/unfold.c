/* conv of images with their channels first, as graphs have them before `channels_last`, of any groups, and by a weight that
 * may be computed. It is a product of matrices the other way round from conv.c: rows are the channels of the result, columns
 * its places, k runs over the channels of a group, then over the taps of the kernel. The weight is read as it lies; what
 * EB_NR places read of x is unfolded into a panel (gemm.h), whose zeros of the padding count. x may have any strides.
 *
 *   tile     some panels of places of one group of a picture by some of the group's channels. Where there are few panels,
 *            channels are shared out, and each of these tiles unfolds for itself
 *
 * A panel pays where several rows multiply it. Where a group has fewer results, vectors lie along the places instead: the lines
 * that some rows of the result read of a channel are copied with their zeros, every stride-th column side by side, and each tap
 * adds a vector of them times one weight (256 channels alone, 7 x 7 taps on 31 x 31 places, Zen 3: 0.46 ms instead of 8.1).
 */
#include "convolution.h"
#include "gemm.h"

typedef struct {
    int64_t panels;      /* panels a tile */
    int64_t panel_tiles; /* tiles over panels */
    int64_t row_tiles;   /* tiles over channels */
    int64_t rows;        /* not 0: few results, rows of them a tile */
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

/* What a tile of few results copies of a channel: lines of each plane of the kernel, of `stride` parts of `pitch` columns. */
typedef struct {
    int64_t reach, lines, pitch, line, size; /* reach: lines that the kernel reaches over; line, size: floats */
} copied;

static copied copy_of(const problem *p, int64_t rows) {
    const int64_t span = eb_multiply(p->kernel[COLUMN] - 1, p->dilation[COLUMN]), stride = p->stride[COLUMN];
    copied c = {.reach = eb_add(eb_multiply(p->kernel[ROW] - 1, p->dilation[ROW]), 1)};
    c.lines = eb_add(rows > 1 ? eb_multiply(rows - 1, p->stride[ROW]) : 0, c.reach);
    c.pitch = eb_add(p->out[COLUMN] + EB_VL, span / stride + 1);
    c.line = eb_multiply(eb_min(stride, span + 1), c.pitch);
    c.size = EB_MULTIPLY(p->kernel[PLANE], c.lines, c.line);
    return c;
}

/* Whether a group has few results, and lines can be copied for them. Rows as the first-level cache holds, or as the kernel
 * reaches over: fewer would copy most lines again. */
static int cut_few(eb_node *node, const problem *p) {
    enum { FEW = 3, FLOATS = 6144 };
    if (p->each_out > FEW) return 0;
    const copied one = copy_of(p, 1);
    const int64_t fitting = FLOATS / eb_max(1, eb_multiply(p->kernel[PLANE], one.line));
    const int64_t rows = eb_max(eb_max(0, fitting - one.reach) / p->stride[ROW] + 1, one.reach / p->stride[ROW]);
    tiling *at = edit_tiling(node);
    at->rows = eb_min(rows, p->out[ROW]);
    at->panel_tiles = eb_multiply(eb_ceil_div(p->out[ROW], at->rows), p->out[PLANE]);
    const copied all = copy_of(p, at->rows);
    const int64_t tiles = EB_MULTIPLY(eb_input(node, EB_IN_CONV_X)->shape[0], p->groups, at->panel_tiles);
    const int64_t multiply_adds = eb_multiply(eb_size(eb_output(node)), p->depth);
    if (!eb_is_proportionate(EB_MULTIPLY(tiles, p->each_in, all.size, 4), eb_add(eb_operand_bytes(node), multiply_adds)))
        return at->rows = 0;
    node->tiles = tiles;
    node->scratch_bytes = (all.size + EB_VL) * (int64_t)sizeof(float) + p->kernel[COLUMN] * (int64_t)sizeof(int64_t);
    return 1;
}

static eb_status plan(eb_node *node) {
    if (node->ints[EB_INT_CONV_CHANNELS_LAST] || node->ints[EB_INT_CONV_GROUPS] < 1) return EB_NOT_APPLICABLE;
    if (eb_input(node, EB_IN_CONV_WEIGHT)->is_packed || !eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    for (int i = 1; i < node->n_inputs; i++)
        if (eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    if (eb_size(eb_output(node)) == 0) return EB_OK;
    const problem p = describe(node);
    if (cut_few(node, &p)) return EB_OK;
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

/* --- few results -------------------------------------------------------------------------------------------------- */

/* The lines of a channel that rows [first, first + rows) of plane `plane` read. */
static void copy_lines(const problem *p, const copied *c, const float *x, int64_t plane, int64_t first, int64_t rows, float *to) {
    const int64_t stride = p->stride[COLUMN], count = c->pitch - EB_VL;
    const int64_t lines = eb_min(c->lines, (rows - 1) * p->stride[ROW] + c->reach);
    for (int64_t part = 0; part < c->line / c->pitch; part++, to += c->pitch) {
        int64_t begin, end;
        eb_clip(part - p->low[COLUMN], stride, p->in[COLUMN], count, &begin, &end);
        const int64_t step = end - begin > 1 ? stride * p->x_step[COLUMN] : 0; /* of a single place it may overflow */
        const int64_t start = begin < end ? (part - p->low[COLUMN] + begin * stride) * p->x_step[COLUMN] : 0;
        for (int64_t i = 0; i < p->kernel[PLANE]; i++) {
            const int64_t at_plane = plane * p->stride[PLANE] + i * p->dilation[PLANE] - p->low[PLANE];
            const int is_plane = at_plane >= 0 && at_plane < p->in[PLANE];
            for (int64_t l = 0; l < lines; l++) {
                const int64_t row = first * p->stride[ROW] + l - p->low[ROW];
                const int is_inside = is_plane && row >= 0 && row < p->in[ROW];
                const int64_t from = is_inside ? begin : count, until = is_inside ? end : count;
                float *line = to + (i * c->lines + l) * c->line;
                for (int64_t n = 0; n < from; n++) line[n] = 0;
                if (from < until)
                    copy_floats(line + from, x + at_plane * p->x_step[PLANE] + row * p->x_step[ROW] + start, step, until - from);
                for (int64_t n = until; n < count; n++) line[n] = 0;
            }
        }
    }
}

/* One line of one channel into N vectors of R rows of the result, which have other weights for it. */
EB_INLINE void add_line(const problem *p, const float *line, const int64_t *columns, const float *w, const float *other, vf *sum,
                        vf *other_sum, const int R, const int N) {
    for (int64_t k = 0; k < p->kernel[COLUMN]; k++) {
        const vf tap = vf_set(w[k]), other_tap = R == 2 ? vf_set(other[k]) : tap;
        const float *from = line + columns[k];
        EB_UNROLL
        for (int v = 0; v < N; v++) {
            const vf value = vf_load(from + v * EB_VL);
            sum[v] += tap * value;
            if (R == 2) other_sum[v] += other_tap * value;
        }
    }
}

/* R rows of the result by N vectors, `count` columns, from one channel. lines: where the first of them begins to read. Of two
 * rows, each begins a line of the kernel further than the one before. */
EB_INLINE void add_taps(const problem *p, const copied *c, const float *lines, const int64_t *columns, const float *w,
                        int64_t count, float *y, const int R, const int N) {
    const int64_t tail = count - (N - 1) * EB_VL, ldy = p->out[COLUMN], height = p->kernel[ROW], width = p->kernel[COLUMN];
    vf sum[2][4];
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < N; v++) {
            const float *from = y + r * ldy + v * EB_VL;
            sum[r][v] = v == N - 1 ? vf_load_part(from, tail) : vf_load(from);
        }
    for (int64_t i = 0; i < p->kernel[PLANE]; i++, w += height * width) {
        const float *line = lines + i * c->lines * c->line;
        const int64_t step = height + R > 2 ? p->dilation[ROW] * c->line : 0; /* of a single line it may overflow */
        add_line(p, line, columns, w, NULL, sum[0], NULL, 1, N);
        for (int64_t j = 1; j < height; j++) {
            line += step;
            add_line(p, line, columns, w + j * width, w + (j - 1) * width, sum[0], sum[R - 1], R, N);
        }
        if (R == 2) add_line(p, line + step, columns, w + (height - 1) * width, NULL, sum[R - 1], NULL, 1, N);
    }
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < N; v++) {
            float *to = y + r * ldy + v * EB_VL;
            if (v == N - 1)
                vf_store_part(to, sum[r][v], tail);
            else
                vf_store(to, sum[r][v]);
        }
}

typedef void few_function(const problem *p, const copied *c, const float *lines, const int64_t *columns, const float *w,
                          int64_t count, float *y);
#define FEW_FUNCTION(R, N)                                                                                               \
    static void add_taps_##R##_##N(const problem *p, const copied *c, const float *lines, const int64_t *columns,        \
                                   const float *w, int64_t count, float *y) {                                            \
        add_taps(p, c, lines, columns, w, count, y, R, N);                                                               \
    }
FEW_FUNCTION(1, 1)
FEW_FUNCTION(1, 2)
FEW_FUNCTION(1, 3)
FEW_FUNCTION(1, 4)
FEW_FUNCTION(2, 1)
FEW_FUNCTION(2, 2)
FEW_FUNCTION(2, 3)
FEW_FUNCTION(2, 4)
static few_function *const few_functions[2][4] = {{add_taps_1_1, add_taps_1_2, add_taps_1_3, add_taps_1_4},
                                                  {add_taps_2_1, add_taps_2_2, add_taps_2_3, add_taps_2_4}};

/* One channel into `rows` rows of a result that begins at y. */
static void add_channel(const problem *p, const copied *c, const float *lines, const int64_t *columns, const float *w,
                        int64_t rows, float *y) {
    const int64_t width = p->out[COLUMN], most = p->stride[ROW] == p->dilation[ROW] ? 2 : 1;
    for (int64_t r = 0; r < rows;) {
        const int64_t pair = eb_min(most, rows - r);
        for (int64_t n = 0; n < width; n += 4 * EB_VL) {
            const int64_t count = eb_min(4 * EB_VL, width - n);
            few_functions[pair - 1][eb_ceil_div(count, EB_VL) - 1](p, c, lines + r * p->stride[ROW] * c->line + n, columns, w,
                                                                  count, y + r * width + n);
        }
        r += pair;
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

static eb_status run_few(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const problem p = describe(node);
    const tiling *at = tiling_of(node);
    const copied c = copy_of(&p, at->rows);
    const int64_t kind = node->ints[EB_INT_CONV_ACTIVATION], taps = p.depth / eb_max(1, p.each_in);
    const float *bias = eb_optional_data(node, EB_IN_CONV_BIAS, bases);
    const float *residual = eb_optional_data(node, EB_IN_CONV_RESIDUAL, bases);
    const float *x = eb_data(eb_input(node, EB_IN_CONV_X), bases), *w = eb_data(eb_input(node, EB_IN_CONV_WEIGHT), bases);
    float *y = eb_data(eb_output(node), bases), *lines = (float *)((int64_t *)scratch + p.kernel[COLUMN]);
    int64_t *columns = scratch;
    for (int64_t k = 0; k < p.kernel[COLUMN]; k++)
        columns[k] = k * p.dilation[COLUMN] % p.stride[COLUMN] * c.pitch + k * p.dilation[COLUMN] / p.stride[COLUMN];
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t slice = tile / at->panel_tiles, picture = slice / p.groups, group = slice % p.groups;
        const int64_t blocks = at->panel_tiles / p.out[PLANE], plane = tile % at->panel_tiles / blocks;
        const int64_t first = tile % blocks * at->rows, rows = eb_min(at->rows, p.out[ROW] - first);
        const int64_t from = slice * p.each_out * p.places + (plane * p.out[ROW] + first) * p.out[COLUMN];
        const int64_t channel = group * p.each_out, size = rows * p.out[COLUMN];
        begin_rows(y + from, bias ? bias + channel : NULL, residual ? residual + from : NULL, p.each_out, size, p.places);
        for (int64_t in = 0; in < p.each_in; in++) {
            copy_lines(&p, &c, x + picture * p.x_picture + (group * p.each_in + in) * p.x_channel, plane, first, rows, lines);
            for (int64_t o = 0; o < p.each_out; o++)
                add_channel(&p, &c, lines, columns, w + ((channel + o) * p.each_in + in) * taps, rows, y + from + o * p.places);
        }
        if (activations[kind]) activations[kind](y + from, p.each_out, size, p.places);
    }
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    if (tiling_of(node)->rows) return run_few(node, bases, begin, end, scratch);
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
