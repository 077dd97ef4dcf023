/* What the Winograd kernels of conv share, whatever the weight is stored as: conv of channels-last images by 3 x 3 kernels in steps
 * of one, with fewer multiplications, Winograd's F(m x m, 3 x 3).
 * A tile of m x m results comes from (m + 2)^2 places of x. Both x and the weight are transformed (B, G), every one of
 * the (m + 2)^2 points of the transforms is a product of matrices of its own over the channels, and the sums are
 * transformed back (A):  y = A^T [(G w G^T) . (B^T x B)] A.
 *
 *   m = 2: 16 products for 4 results,  4 for each, 2.25 times fewer than 9; points 0, 1, -1, infinity
 *   m = 4: 36 products for 16 results, 2.25 each,  4 times fewer;           points 0, +-1/sqrt(2), +-sqrt(2), infinity
 *
 * The points of m = 4 are chosen by error: about twice that of the direct sum, where the
 * usual whole ones, 1 and 2, make five times. NaN and infinities spread over all results of their tile, and a number
 * that is huge beside its neighbours takes digits from them.
 *
 * Two ways to cut the work. Many places: blocks of tiles, whose transforms stay in the second-level cache, one task
 * each. Few places: the transforms of all of x, in shared memory, are made first; then every panel of channels is a task.
 *
 * A file that includes this header first defines
 *
 *   WINOGRAD_BFLOAT   enumerator: 1 if the weight has elements of bfloat16 and x is rounded to bfloat16 when it is read. Products
 *                     of the points are those of floats either way
 *
 * and defines its kernels by EB_WINOGRAD. */
#ifndef EB_WINOGRAD_H
#define EB_WINOGRAD_H

#include "bfloat.h"
#include "convolution.h"
#include "gemm.h"
#include "packings.h"

typedef struct {
    int64_t block;  /* tiles of the transforms a task */
    int64_t blocks; /* tasks that transform */
    int64_t shared; /* whether the transforms of x are shared */
} tiling;
EB_NODE_PLAN(tiling)
enum { MOST_POINTS = 6 };

typedef struct {
    int64_t H, W, C, O, out_h, out_w, low_h, low_w;
    int64_t across, a_picture, tiles; /* tiles of m x m results: in a row of them, in a picture, in all */
    int64_t row;                      /* floats of a transformed row: C in whole vectors */
} problem;

static problem describe(const eb_node *node, const int m) {
    const eb_tensor *x = eb_input(node, EB_IN_CONV_X), *y = eb_output(node);
    problem p = {.H = x->shape[1], .W = x->shape[2], .C = x->shape[3], .O = y->shape[3]};
    p.out_h = y->shape[1], p.out_w = y->shape[2];
    p.low_h = node->ints[EB_INT_CONV_LOW], p.low_w = node->ints[EB_INT_CONV_LOW + 1];
    p.across = eb_ceil_div(p.out_w, m);
    p.a_picture = p.across * eb_ceil_div(p.out_h, m);
    p.tiles = x->shape[0] * p.a_picture;
    p.row = eb_ceil_div(p.C, EB_VL) * EB_VL;
    return p;
}

/* Floats from one point to the next of `rows` rows: a line more, or all points would fall into one set of the cache. */
EB_INLINE int64_t point_step(int64_t rows, int64_t row) { return rows * row + 64 / 4; }
EB_INLINE int64_t transformed_bytes(const problem *p, int64_t tiles, const int n) {
    return n * n * 4 * point_step(tiles, p->row);
}
EB_INLINE int64_t sums_bytes(int64_t tiles, const int n) { return n * n * 4 * point_step(tiles, EB_NR); }

/* --- the transforms ----------------------------------------------------------------------------------------------- */

#define ROOT_HALF 0.70710678118654752440
#define ROOT_TWO 1.41421356237309504880

/* B^T d, of n = m + 2 places. */
EB_INLINE void transform_places(const int m, vf *d) {
    if (m == 2) {
        const vf d1 = d[1];
        d[0] = d[0] - d[2];
        d[1] = d1 + d[2];
        d[2] = d[2] - d1;
        d[3] = d[3] - d1;
    } else {
        const vf half = d[4] - d[2] * 2.0f, half_odd = (d[3] - d[1] * 2.0f) * (float)ROOT_HALF;
        const vf two = d[4] - d[2] * 0.5f, two_odd = (d[3] - d[1] * 0.5f) * (float)ROOT_TWO;
        d[0] = d[0] + (d[4] - d[2] * 2.5f);
        d[5] = d[1] + (d[5] - d[3] * 2.5f);
        d[1] = half + half_odd;
        d[2] = half - half_odd;
        d[3] = two + two_odd;
        d[4] = two - two_odd;
    }
}

/* A^T s, of n points: m results. */
EB_INLINE void transform_sums(const int m, vf *s) {
    if (m == 2) {
        const vf odd = s[1] - s[2];
        s[0] = s[0] + (s[1] + s[2]);
        s[1] = odd + s[3];
    } else {
        const vf half = s[1] + s[2], half_odd = (s[1] - s[2]) * (float)ROOT_HALF;
        const vf two = s[3] + s[4], two_odd = (s[3] - s[4]) * (float)ROOT_TWO;
        s[0] = s[0] + (half + two);
        s[1] = half_odd + two_odd;
        s[2] = half * 0.5f + two * 2.0f;
        s[3] = s[5] + (half_odd * 0.5f + two_odd * 2.0f);
    }
}

/* G g: three taps become n points. In double: a weight is transformed once and read for ever. */
EB_INLINE void transform_taps(const int m, vd g0, vd g1, vd g2, vd *to) {
    if (m == 2) {
        to[0] = g0;
        to[1] = (g0 + g1 + g2) * 0.5;
        to[2] = (g0 - g1 + g2) * 0.5;
        to[3] = g2;
    } else {
        const vd half = (g0 + g2 * 0.5) * (-2.0 / 3), half_odd = g1 * (-2.0 / 3 * ROOT_HALF);
        const vd two = (g0 + g2 * 2.0) * (1.0 / 6), two_odd = g1 * (1.0 / 6 * ROOT_TWO);
        to[0] = g0;
        to[1] = half + half_odd;
        to[2] = half - half_odd;
        to[3] = two + two_odd;
        to[4] = two - two_odd;
        to[5] = g2;
    }
}

/* --- x ------------------------------------------------------------------------------------------------------------ */

/* One tile of x, whose places are `row` and `line` floats apart, into row `to` of every point. */
EB_INLINE void transform_tile(const int m, const float *x, int64_t line, int64_t place, int64_t row, float *to,
                              int64_t step) {
    const int n = m + 2;
    for (int64_t c = 0; c < row; c += EB_VL) {
        vf grid[MOST_POINTS][MOST_POINTS];
        EB_UNROLL
        for (int j = 0; j < n; j++) {
            vf column[MOST_POINTS];
            EB_UNROLL
            for (int i = 0; i < n; i++) {
                const vf value = vf_load(x + i * line + j * place + c);
                column[i] = WINOGRAD_BFLOAT ? round_to_bfloat(value) : value;
            }
            transform_places(m, column);
            EB_UNROLL
            for (int i = 0; i < n; i++) grid[i][j] = column[i];
        }
        EB_UNROLL
        for (int i = 0; i < n; i++) {
            transform_places(m, grid[i]);
            EB_UNROLL
            for (int j = 0; j < n; j++) vf_store(to + (i * n + j) * step + c, grid[i][j]);
        }
    }
}

/* The places of a tile that begins at (h, w), zeros outside of the picture and behind its channels. */
static void copy_places(const problem *p, const int n, const float *x, int64_t h, int64_t w, float *to) {
    int64_t left = eb_max(0, -w), right = eb_max(left, eb_min(n, p->W - w));
    memset(to, 0, (size_t)(n * n * p->row) * 4);
    for (int64_t i = eb_max(0, -h); i < eb_min(n, p->H - h); i++)
        for (int64_t j = left; j < right; j++)
            memcpy(to + (i * n + j) * p->row, x + ((h + i) * p->W + w + j) * p->C, (size_t)p->C * 4);
}

/* Tiles [first, last) of x into `to`, where they are rows [row, ...) of points that lie `step` apart. */
EB_INLINE void transform_x(const problem *p, const int m, const float *x, int64_t first, int64_t last, float *to,
                           int64_t step, float *places) {
    const int n = m + 2;
    for (int64_t tile = first; tile < last; tile++, to += p->row) {
        const int64_t in_picture = tile % p->a_picture;
        const int64_t h = in_picture / p->across * m - p->low_h, w = in_picture % p->across * m - p->low_w;
        const float *picture = x + tile / p->a_picture * p->H * p->W * p->C;
        const int inside = h >= 0 && w >= 0 && h + n <= p->H && w + n <= p->W && p->row == p->C;
        if (!inside) copy_places(p, n, picture, h, w, places);
        const float *from = inside ? picture + (h * p->W + w) * p->C : places;
        transform_tile(m, from, inside ? p->W * p->C : n * p->row, inside ? p->C : p->row, p->row, to, step);
    }
}

/* --- y ------------------------------------------------------------------------------------------------------------ */

typedef struct {
    const float *bias, *residual; /* or NULL */
    float *y;
    eb_activation activation;
} epilogue;

/* The sums of one tile and vector of channels become its places of y, as far as they are in the picture. */
EB_INLINE void transform_back(const int m, const float *sums, int64_t step, vf bias, const float *residual, float *y,
                              int64_t line, int64_t place, int64_t rows, int64_t columns, int64_t count, const int relu) {
    const int n = m + 2;
    vf grid[MOST_POINTS][MOST_POINTS];
    EB_UNROLL
    for (int j = 0; j < n; j++) {
        vf column[MOST_POINTS];
        EB_UNROLL
        for (int i = 0; i < n; i++) column[i] = vf_load(sums + (i * n + j) * step);
        transform_sums(m, column);
        EB_UNROLL
        for (int i = 0; i < m; i++) grid[i][j] = column[i];
    }
    EB_UNROLL
    for (int i = 0; i < m; i++) {
        if (i == rows) return;
        transform_sums(m, grid[i]);
        EB_UNROLL
        for (int j = 0; j < m; j++) {
            if (j == columns) break;
            const int64_t at = i * line + j * place;
            vf value = grid[i][j] + bias;
            if (count == EB_VL) {
                if (residual) value += vf_load(residual + at);
                vf_store(y + at, relu ? vf_relu(value) : value);
            } else {
                if (residual) value += vf_load_part(residual + at, count);
                vf_store_part(y + at, relu ? vf_relu(value) : value, count);
            }
        }
    }
}

/* A panel of channels from `o` on, of tiles [first, last). */
EB_INLINE void write_panel(const problem *p, const int m, const float *sums, int64_t step, const epilogue *to, int64_t o,
                           int64_t first, int64_t last, const int relu) {
    float bias[EB_NR] = {0};
    if (to->bias) memcpy(bias, to->bias + o, (size_t)eb_min(EB_NR, p->O - o) * 4);
    const int64_t line = p->out_w * p->O;
    for (int64_t tile = first; tile < last; tile++, sums += EB_NR) {
        const int64_t in_picture = tile % p->a_picture, h = in_picture / p->across * m, w = in_picture % p->across * m;
        const int64_t rows = eb_min(m, p->out_h - h), columns = eb_min(m, p->out_w - w);
        const int64_t at = ((tile / p->a_picture * p->out_h + h) * p->out_w + w) * p->O + o;
        for (int64_t v = 0; v < EB_NR && o + v < p->O; v += EB_VL) {
            const int64_t count = eb_min(EB_VL, p->O - o - v);
            const float *residual = to->residual ? to->residual + at + v : NULL;
            transform_back(m, sums + v, step, vf_load(bias + v), residual, to->y + at + v, line, p->O, rows, columns, count, relu);
        }
        if (to->activation && !relu)
            for (int64_t i = 0; i < rows; i++)
                to->activation(to->y + at + i * line, columns, eb_min(EB_NR, p->O - o), p->O);
    }
}

/* Channels [o, o_end) of tiles [first, last) from their transforms. */
EB_INLINE void multiply_points(const problem *p, const int m, const float *transformed, int64_t step, const float *weight,
                               const epilogue *to, int64_t o, int64_t o_end, int64_t first, int64_t last, float *sums) {
    const int points = (m + 2) * (m + 2);
    const int64_t rows = last - first, sums_step = point_step(rows, EB_NR), panel = p->C * EB_NR;
    for (; o < o_end; o += EB_NR) {
        const float *panels = weight + o / EB_NR * points * panel;
        for (int point = 0; point < points; point++) {
            eb_product product = {.M = rows,
                                  .columns = p->O - o > EB_VL ? EB_NR : EB_VL,
                                  .K = p->C,
                                  .x = transformed + point * step,
                                  .x_row = p->row,
                                  .x_k = 1,
                                  .b = panels + point * panel,
                                  .ldb = EB_NR,
                                  .y = sums + point * sums_step,
                                  .ldy = EB_NR,
                                  .alpha = 1};
            multiply_panel(&product);
        }
        if (to->activation == activate_relu)
            write_panel(p, m, sums, sums_step, to, o, first, last, 1);
        else
            write_panel(p, m, sums, sums_step, to, o, first, last, 0);
    }
}

/* --- the kernel --------------------------------------------------------------------------------------------------- */

static int is_winograd(const eb_node *node) {
    const eb_tensor *w = eb_input(node, EB_IN_CONV_WEIGHT);
    const int64_t *ints = node->ints;
    int fits = w->rank == 4 && ints[EB_INT_CONV_CHANNELS_LAST] && ints[EB_INT_CONV_GROUPS] == 1;
    for (int axis = 0; axis < 2 && fits; axis++)
        fits = w->shape[2 + axis] == 3 && ints[EB_INT_CONV_STRIDE + axis] == 1 && ints[EB_INT_CONV_DILATION + axis] == 1;
    return fits;
}

/* Additions and multiplications, those of the transforms included: along one axis, then along the other. */
static int64_t operations_of(const problem *p, const int m) {
    const int64_t n = m + 2, there = m == 2 ? 4 : 20, back = m == 2 ? 4 : 16;
    return eb_multiply(p->tiles, 2 * n * n * p->C * p->O + 2 * n * there * p->C + (n + m) * back * p->O);
}

/* Multiplications that one instruction of a direct sum carries out for each lane. */
enum { DIRECT_RATE = WINOGRAD_BFLOAT ? 2 : 1 };

/* Multiplications, and everything else in units of them: what a task of few rows waits for its weight, and the
 * transforms, ten operations, loads and stores a number. m = 1: the direct sum. */
static double cost_of(const eb_node *node, const int m) {
    enum { LEAST_ROWS = 8, TRANSFORM = 10 };
    const problem p = describe(node, m);
    const double points = (m + 2) * (m + 2), rows = (double)eb_max(LEAST_ROWS, p.tiles);
    if (m == 1) return points * rows * (double)(p.C * p.O) / DIRECT_RATE;
    return points * (rows * (double)(p.C * p.O) + (double)p.tiles * TRANSFORM * (double)(p.C + p.O));
}

static int pays(const eb_node *node, const int m) {
    return cost_of(node, m) < cost_of(node, 1) && cost_of(node, m) <= cost_of(node, m == 2 ? 4 : 2);
}

static void cut(eb_node *node, const int m) {
    enum { CACHE = 704 << 10, SHARED = 1 << 20, TASKS = 16, WORTH = 24 };
    const int n = m + 2;
    const problem p = describe(node, m);
    const int64_t panels = eb_ceil_div(p.O, EB_NR), fitting = CACHE / (n * n * 4 * (p.row + EB_NR));
    int64_t blocks = eb_ceil_div(p.tiles, eb_max(1, fitting));
    edit_tiling(node)->shared = panels >= TASKS / 2 && transformed_bytes(&p, p.tiles, n) <= SHARED;
    if (tiling_of(node)->shared)
        blocks = eb_max(1, eb_min(TASKS, p.tiles / 2));
    else
        blocks = eb_max(blocks, eb_min(TASKS, p.tiles / WORTH));
    edit_tiling(node)->block = eb_ceil_div(p.tiles, blocks);
    edit_tiling(node)->blocks = node->tiles = eb_ceil_div(p.tiles, tiling_of(node)->block);
    const int64_t places = n * n * p.row * 4, rows = tiling_of(node)->shared ? p.tiles : tiling_of(node)->block;
    node->scratch_bytes = eb_max(places, sums_bytes(rows, n));
    if (tiling_of(node)->shared) {
        node->joins = panels;
        node->shared_bytes = transformed_bytes(&p, p.tiles, n);
    } else {
        node->scratch_bytes = node->scratch_bytes + transformed_bytes(&p, rows, n);
    }
}

EB_INLINE eb_status plan(eb_node *node, const int m) {
    if (!is_winograd(node) || eb_size(eb_output(node)) == 0) return EB_NOT_APPLICABLE;
    if (eb_input(node, EB_IN_CONV_X)->shape[3] == 0) return EB_NOT_APPLICABLE;
    if (!node->wanted && !pays(node, m)) return EB_NOT_APPLICABLE;
    const eb_status status = check_conv_operands(node);
    if (status != EB_OK) return status;
    cut(node, m);
    const problem p = describe(node, m);
    node->operations = operations_of(&p, m);
    return EB_OK;
}

/* Nine taps of a panel's channels at one k, [9][EB_NR] `taps` apart, into the points, `step` apart. */
EB_INLINE void transform_weight(const int m, const float *from, int64_t taps, float *to, int64_t step) {
    const int n = m + 2;
    for (int half = 0; half < 2; half++, from += EB_VL, to += EB_VL) {
        vd tap[2][3][3], grid[2][MOST_POINTS][3], line[2][MOST_POINTS];
        for (int i = 0; i < 9; i++) vf_widen(vf_load(from + i * taps), &tap[0][i / 3][i % 3], &tap[1][i / 3][i % 3]);
        for (int side = 0; side < 2; side++)
            for (int j = 0; j < 3; j++) {
                transform_taps(m, tap[side][0][j], tap[side][1][j], tap[side][2][j], line[side]);
                for (int i = 0; i < n; i++) grid[side][i][j] = line[side][i];
            }
        for (int i = 0; i < n; i++) {
            for (int side = 0; side < 2; side++)
                transform_taps(m, grid[side][i][0], grid[side][i][1], grid[side][i][2], line[side]);
            for (int j = 0; j < n; j++) vf_store(to + (i * n + j) * step, vf_narrow(line[0][j], line[1][j]));
        }
    }
}

/* The packed weight is [O / EB_NR][points][C][EB_NR]. A piece is EB_NR channels. There are no numbers. */
static int64_t count_pieces(const eb_tensor *w, const int64_t *numbers) {
    (void)numbers;
    return eb_ceil_div(w->shape[0], EB_NR);
}

/* One tap of some columns at some channels, from element `at` of the weight on, as a panel of floats. */
EB_INLINE void pack_tap(const eb_tensor *w, const void *source, int64_t at, int64_t depth, int64_t columns, float *panel) {
    if (!WINOGRAD_BFLOAT) {
        pack_panel((const eb_float_unaligned *)source + at, w->stride[1], w->stride[0], depth, columns, panel);
        return;
    }
    const eb_bfloat_unaligned *from = (const eb_bfloat_unaligned *)source + at;
    memset(panel, 0, (size_t)(depth * EB_NR) * 4);
    for (int64_t n = 0; n < columns; n++)
        for (int64_t k = 0; k < depth; k++)
            panel[k * EB_NR + n] = float_of(f32_of_bf16(from[k * w->stride[1] + n * w->stride[0]]));
}

EB_INLINE void pack(const eb_tensor *w, const void *source, void *destination, int64_t begin, int64_t end, const int m) {
    enum { DEPTH = 16 };
    const int64_t O = w->shape[0], C = w->shape[1], points = (m + 2) * (m + 2);
    float taps[9 * DEPTH * EB_NR], *panel = (float *)destination + begin * points * C * EB_NR;
    for (int64_t o = begin * EB_NR; o < eb_min(O, end * EB_NR); o += EB_NR, panel += points * C * EB_NR)
        for (int64_t c = 0; c < C; c += DEPTH) {
            const int64_t depth = eb_min(DEPTH, C - c);
            for (int tap = 0; tap < 9; tap++) {
                const int64_t at = o * w->stride[0] + c * w->stride[1] + tap / 3 * w->stride[2] + tap % 3 * w->stride[3];
                pack_tap(w, source, at, depth, eb_min(EB_NR, O - o), taps + tap * DEPTH * EB_NR);
            }
            for (int64_t k = 0; k < depth; k++)
                transform_weight(m, taps + k * EB_NR, DEPTH * EB_NR, panel + (c + k) * EB_NR, C * EB_NR);
        }
}

EB_INLINE eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch, const int m) {
    const int n = m + 2;
    const problem p = describe(node, m);
    const tiling *at = tiling_of(node);
    const int64_t rows = at->shared ? p.tiles : at->block, step = point_step(rows, p.row);
    const float *x = eb_data(eb_input(node, EB_IN_CONV_X), bases);
    const float *weight = eb_data(eb_input(node, EB_IN_CONV_WEIGHT), bases);
    const epilogue to = {.bias = eb_optional_data(node, EB_IN_CONV_BIAS, bases),
                         .residual = eb_optional_data(node, EB_IN_CONV_RESIDUAL, bases),
                         .y = eb_data(eb_output(node), bases),
                         .activation = activations[node->ints[EB_INT_CONV_ACTIVATION]]};
    float *places = scratch, *sums = scratch; /* one after the other */
    float *transformed = at->shared ? eb_shared(node, bases)
                                       : sums + eb_max(n * n * p.row, sums_bytes(rows, n) / 4);
    for (int64_t task = begin; task < end; task++) {
        const int64_t first = task * at->block, last = eb_min(p.tiles, first + at->block);
        if (task < at->blocks)
            transform_x(&p, m, x, first, last, transformed + (at->shared ? first * p.row : 0), step, places);
        if (!at->shared) {
            multiply_points(&p, m, transformed, step, weight, &to, 0, p.O, first, last, sums);
        } else if (task >= at->blocks) {
            const int64_t o = (task - at->blocks) * EB_NR;
            multiply_points(&p, m, transformed, step, weight, &to, o, eb_min(p.O, o + EB_NR), 0, p.tiles, sums);
        }
    }
    return EB_OK;
}

/* Defines kernel `kernel` and its packing `name`. */
#define EB_WINOGRAD(m, kernel, name)                                                                                \
    static eb_status plan_##m(eb_node *node) { return plan(node, m); }                                              \
    static int64_t bytes_##m(const eb_tensor *w, const int64_t *numbers) {                                          \
        return EB_MULTIPLY(count_pieces(w, numbers), EB_NR, w->shape[1], (m + 2) * (m + 2), 4);                      \
    }                                                                                                               \
    static void pack_##m(const eb_tensor *w, const int64_t *numbers, const void *source, void *destination,         \
                         int64_t begin, int64_t end) {                                                              \
        (void)numbers;                                                                                              \
        pack(w, source, destination, begin, end, m);                                                                \
    }                                                                                                               \
    static const eb_packing points_##m = {EB_PACKING_NAME(name), bytes_##m, count_pieces, pack_##m, NULL};          \
    static const eb_packing *choose_packing_##m(const eb_node *node, int32_t input, int64_t *numbers) {             \
        (void)numbers;                                                                                              \
        return input == EB_IN_CONV_WEIGHT && is_winograd(node) ? &points_##m : NULL;                                \
    }                                                                                                               \
    static eb_status run_##m(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {  \
        return run(node, bases, begin, end, scratch, m);                                                            \
    }                                                                                                               \
    const eb_kernel kernel = {plan_##m, run_##m, choose_packing_##m, .transforms = 1};

#endif
