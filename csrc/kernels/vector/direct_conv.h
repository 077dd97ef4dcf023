/* What the `direct` kernels of conv share, whatever they multiply: conv over one to three spatial axes of channels-last images, as
 * an implicit product of matrices for each group of channels. Rows are places of the result, k runs over the kernel's planes, rows and columns, then the
 * channels. The taps of a row of the kernel are neighbours in x, so k is made of pieces that lie in one piece in x: the product
 * finds them by two tables (gemm.h), of where a place begins and of where a piece does from there. Nothing is unfolded, and sums
 * stay in registers over pieces.
 *
 * Around a padded x its rows are first copied into scratch with their zeros, of several groups each alone, so that its taps are
 * neighbours there, too. The weight is packed into panels whose k is in that
 * order. Strides and depths count groups of 4 bytes: a float, or two elements of bfloat16. A file that includes this header first
 * defines
 *
 *   CONV_GROUP     enumerator: the elements of a group. If it is 2, x is always copied, because the copy rounds it
 *
 * and passes the functions `conv_copy_row` and `conv_multiply` to `run_conv`.
 */
#ifndef EB_DIRECT_CONV_H
#define EB_DIRECT_CONV_H

#include "convolution.h"
#include "gemm.h"
#include "packings.h"

typedef struct {
    int64_t rows;         /* rows of the result a tile */
    int64_t row_tiles;    /* tiles a plane, over rows */
    int64_t panels;       /* panels a tile */
    int64_t column_tiles; /* tiles over panels */
} tiling;
EB_NODE_PLAN(tiling)

typedef struct {
    int64_t C, O, groups; /* C, O: channels of x and of the result, a group */
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], low[AXES], dilation[AXES];
    int copies;
    int64_t window, apart, width; /* columns of x that a column of the copy holds, how far apart, and its groups */
    /* What a tile reads, x itself or the copy: groups from column to column, row to row and one plane of the kernel to
     * the next; how far places lie apart; the copy's rows and columns, every `pick`-th of x. */
    int64_t pitch, line, plane, step[AXES], rows, columns, pick[AXES];
    int64_t taps, pieces, depth; /* taps that lie in one piece of x, how many such pieces, how long they are */
} problem;

/* Rows or columns of what a tile reads that `places` of the result reach over. */
static inline int64_t reach_of(const problem *p, int axis, int64_t places) {
    return eb_max(0, places - 1) * p->step[axis] + (p->kernel[axis] - 1) * p->dilation[axis] + 1;
}

/* Few channels, of an odd number, would fill their groups badly (3 of 4, 1 of 2). Then a column of the copy holds all columns of
 * x that a place of the result needs (7 x 3 = 21 of 22), and the kernel is one column wide. Neighbouring columns of the copy
 * repeat most of x, so a wide kernel has none. */
static inline int has_windows(int64_t C, int64_t kernel_columns) {
    enum { MANY_CHANNELS = 8, MOST_COLUMNS = 32 };
    return CONV_GROUP > 1 && C % CONV_GROUP && C < MANY_CHANNELS && kernel_columns > 1 && kernel_columns <= MOST_COLUMNS;
}

/* Groups that lie a multiple of 2 KiB apart share two sets of a first-level cache, of 8 ways each: fourteen rows of a
 * micro-tile leave none for the panel. In a copy, pixels lie a cache line further apart. */
enum { COLLIDING = 512, LINE = 16 };

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_CONV_X), *w = eb_input(node, EB_IN_CONV_WEIGHT), *y = eb_output(node);
    const int64_t *ints = node->ints;
    const int64_t groups = ints[EB_INT_CONV_GROUPS], pixel = x->shape[x->rank - 1];
    problem p = {.C = w->shape[1], .O = y->shape[y->rank - 1] / groups, .groups = groups};
    for (int a = 0; a < AXES; a++) {
        int own = axis_of(x->rank, a), present = own >= 0;
        p.in[a] = present ? x->shape[own + 1] : 1;
        p.out[a] = present ? y->shape[own + 1] : 1;
        p.kernel[a] = present ? w->shape[own + 2] : 1;
        p.stride[a] = present ? ints[EB_INT_CONV_STRIDE + own] : 1;
        p.dilation[a] = present ? ints[EB_INT_CONV_DILATION + own] : 1;
        p.low[a] = present ? ints[EB_INT_CONV_LOW + own] : 0;
        p.copies |= p.low[a] || (present && ints[EB_INT_CONV_HIGH + own]);
    }
    const int is_window = has_windows(p.C, p.kernel[COLUMN]);
    p.copies |= CONV_GROUP > 1;
    p.window = is_window ? p.kernel[COLUMN] : 1;
    p.apart = p.dilation[COLUMN];
    if (is_window) p.kernel[COLUMN] = p.dilation[COLUMN] = 1;
    p.width = eb_ceil_div(p.window * p.C, CONV_GROUP);
    const int is_linear = p.kernel[PLANE] * p.kernel[ROW] * p.kernel[COLUMN] == 1;
    p.pitch = groups > 1 && !p.copies ? pixel : p.width;
    const int collides = p.stride[COLUMN] % COLLIDING * (p.pitch % COLLIDING) % COLLIDING == 0;
    if (is_linear && collides) p.copies = 1, p.pitch = p.width;
    for (int a = ROW; a <= COLUMN; a++) {
        p.pick[a] = p.copies && p.kernel[a] == 1 ? p.stride[a] : 1;
        p.step[a] = p.stride[a] / p.pick[a];
    }
    p.rows = reach_of(&p, ROW, tiling_of(node)->rows);
    p.columns = p.copies ? reach_of(&p, COLUMN, p.out[COLUMN]) : p.in[COLUMN];
    if (p.copies && p.stride[COLUMN] % COLLIDING * (p.width % COLLIDING) % COLLIDING == 0) p.pitch += LINE;
    p.line = p.columns * p.pitch;
    p.plane = (p.copies ? p.rows : p.dilation[PLANE] * p.in[ROW]) * p.line;
    const int is_dense = p.pitch == p.width;
    p.taps = is_dense && p.dilation[COLUMN] == 1 ? p.kernel[COLUMN] : 1;
    if (is_dense && p.taps == p.columns && p.dilation[ROW] == 1) p.taps *= p.kernel[ROW];
    p.pieces = p.kernel[PLANE] * p.kernel[ROW] * p.kernel[COLUMN] / p.taps;
    p.depth = p.taps * p.width;
    return p;
}

/* Rows of the result whose rows of x stay in the second-level cache, and as many tiles as a few threads need: fewer rows
 * where that leaves some micro-tiles, or else fewer panels. */
static void cut(eb_node *node) {
    enum { X_BYTES = 256 << 10, TILES = 8, HEIGHTS = 8 };
    problem p = describe(node);
    int64_t planes = eb_input(node, EB_IN_CONV_X)->shape[0] * p.out[PLANE] * p.groups, panels = eb_ceil_div(p.O, EB_NR);
    int64_t fitting = X_BYTES / 4 / eb_max(1, p.kernel[PLANE] * p.line * (p.copies ? p.groups : 1));
    int64_t enough = eb_max(eb_ceil_div(p.out[ROW] * planes, TILES), eb_ceil_div(HEIGHTS * EB_MR, p.out[COLUMN]));
    int64_t most = (fitting - reach_of(&p, ROW, 1)) / p.step[ROW] + 1;
    /* But tiles of fewer rows than the kernel reaches over would copy most rows again, and a micro-tile takes some places. */
    most = eb_max(most, eb_max(reach_of(&p, ROW, 1) / p.step[ROW], eb_ceil_div(EB_MR, p.out[COLUMN])));
    int64_t rows = eb_max(1, eb_min(eb_min(p.out[ROW], enough), most));
    edit_tiling(node)->row_tiles = eb_ceil_div(p.out[ROW], rows);
    edit_tiling(node)->rows = eb_ceil_div(p.out[ROW], tiling_of(node)->row_tiles);
    int64_t others = planes * tiling_of(node)->row_tiles;
    int64_t column_tiles = eb_min(panels, eb_ceil_div(TILES, eb_max(1, others)));
    edit_tiling(node)->panels = eb_ceil_div(panels, column_tiles);
    edit_tiling(node)->column_tiles = eb_ceil_div(panels, tiling_of(node)->panels);
    node->tiles = others * tiling_of(node)->column_tiles;
    if (p.copies && tiling_of(node)->column_tiles > 1) node->joins = node->tiles, node->tiles = others;
}

/* scratch: the copy, the table of places, the table of pieces, and what `conv_copy_row` needs. Where several tiles would copy
 * the same rows, tiles do no more than that, into shared memory, and joins multiply. */
static int64_t copy_bytes(const problem *p) {
    return p->copies ? eb_ceil_div(p->kernel[PLANE] * p->plane, 16) * 64 : 0;
}

/* `row_bytes`: of memory that `conv_copy_row` needs. */
static inline eb_status plan_conv(eb_node *node, int64_t (*row_bytes)(const problem *p)) {
    if (!node->ints[EB_INT_CONV_CHANNELS_LAST] || node->ints[EB_INT_CONV_GROUPS] < 1) return EB_NOT_APPLICABLE;
    eb_status status = check_conv_operands(node);
    if (status != EB_OK || eb_size(eb_output(node)) == 0) return status;
    cut(node);
    problem p = describe(node);
    const int64_t tables = (tiling_of(node)->rows * p.out[COLUMN] + p.pieces) * (int64_t)sizeof(int64_t);
    const int64_t copied = eb_multiply(node->tiles, copy_bytes(&p)); /* each tile copies its rows, also those of others */
    const int64_t multiply_adds = eb_multiply(eb_size(eb_output(node)), p.pieces * p.depth);
    if (!eb_is_proportionate(copied, eb_add(eb_operand_bytes(node), multiply_adds))) return EB_NOT_APPLICABLE;
    node->shared_bytes = node->joins ? copied : 0;
    node->scratch_bytes = tables + (node->joins ? 0 : copy_bytes(&p)) + (row_bytes ? row_bytes(&p) : 0);
    return EB_OK;
}

static inline int has_direct_weight(const eb_node *node, int32_t input) {
    return input == EB_IN_CONV_WEIGHT && node->ints[EB_INT_CONV_CHANNELS_LAST] && node->ints[EB_INT_CONV_GROUPS] >= 1;
}

/* A row of the copy, with its zeros on both sides, from a row of x; x is NULL for one of the padding. `memory` has the bytes that
 * the kernel asked for. */
typedef void conv_copy_row(const problem *p, const float *x, float *to, void *memory);

/* What `rows` rows of the result from `first` of plane `plane` on read of one picture. */
EB_INLINE void copy_rows(const problem *p, const float *x, int64_t plane, int64_t first, int64_t rows, float *to,
                         conv_copy_row *copy_row, void *memory) {
    const int64_t line = p->in[COLUMN] * p->C * p->groups, reach = reach_of(p, ROW, rows);
    for (int64_t i = 0; i < p->kernel[PLANE]; i++) {
        int64_t from_plane = plane * p->stride[PLANE] + i * p->dilation[PLANE] - p->low[PLANE];
        int is_plane = from_plane >= 0 && from_plane < p->in[PLANE];
        for (int64_t r = 0; r < reach; r++) {
            int64_t from = first * p->stride[ROW] + r * p->pick[ROW] - p->low[ROW];
            int is_row = is_plane && from >= 0 && from < p->in[ROW];
            copy_row(p, is_row ? x + (from_plane * p->in[ROW] + from) * line : NULL, to + i * p->plane + r * p->line, memory);
        }
    }
}

static void fill_tables(const problem *p, int64_t rows, int64_t *places, int64_t *pieces) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < p->out[COLUMN]; c++)
            *places++ = r * p->step[ROW] * p->line + c * p->step[COLUMN] * p->pitch;
    for (int64_t i = 0; i < p->pieces; i++) {
        int64_t tap = i * p->taps, row = tap / p->kernel[COLUMN];
        pieces[i] = row / p->kernel[ROW] * p->plane + row % p->kernel[ROW] * p->dilation[ROW] * p->line +
                    tap % p->kernel[COLUMN] * p->dilation[COLUMN] * p->pitch;
    }
}

/* Multiplies one panel. */
typedef void conv_multiply(const eb_product *product);

/* The panels of one tile, each over all of the tile's places. */
EB_INLINE void run_panels(const problem *p, const eb_product *whole, int64_t o, int64_t o_end, conv_multiply *multiply) {
    for (; o < o_end; o += EB_NR) {
        eb_product product = *whole;
        product.columns = eb_min(EB_NR, p->O - o);
        product.b += o * p->pieces * p->depth;
        product.y += o;
        if (product.bias) product.bias += o;
        if (product.residual) product.residual += o;
        multiply(&product);
    }
}

/* Some rows of a plane of a picture of the result, channels of one group: block `i` of all. Groups are innermost, because they
 * share cache lines of x and of the result. */
typedef struct {
    int64_t group, picture, plane, first, rows, place; /* place: the first of its results, counted from the first of all */
} rows_of_result;

static rows_of_result block_at(const problem *p, const tiling *at, int64_t i) {
    const int64_t group = i % p->groups, slice = i / p->groups / at->row_tiles, first = i / p->groups % at->row_tiles * at->rows;
    int64_t rows = eb_min(at->rows, p->out[ROW] - first);
    return (rows_of_result){group, slice / p->out[PLANE], slice % p->out[PLANE], first, rows,
                            (slice * p->out[ROW] + first) * p->out[COLUMN]};
}

EB_INLINE eb_status run_conv(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch,
                             conv_copy_row *copy_row, conv_multiply *multiply) {
    const problem p = describe(node);
    const tiling *at = tiling_of(node);
    const int64_t size = p.in[ROW] * p.in[COLUMN] * p.C * p.groups, copy = copy_bytes(&p), N = p.O * p.groups;
    const int64_t panels = eb_ceil_div(p.O, EB_NR) * EB_NR * p.pieces * p.depth; /* of a group */
    const float *bias = eb_optional_data(node, EB_IN_CONV_BIAS, bases), *w = eb_data(eb_input(node, EB_IN_CONV_WEIGHT), bases);
    int64_t *places = (int64_t *)((char *)scratch + (node->joins ? 0 : copy));
    int64_t *pieces = places + at->rows * p.out[COLUMN];
    const float *residual = eb_optional_data(node, EB_IN_CONV_RESIDUAL, bases);
    float *y = eb_data(eb_output(node), bases);
    const float clamp = clamp_of(node->ints[EB_INT_CONV_ACTIVATION]);
    if (begin < end) fill_tables(&p, at->rows, places, pieces);
    eb_product product = {.K = p.depth,
                          .x_row = p.step[COLUMN] * p.pitch,
                          .x_k = 1,
                          .ldb = EB_NR,
                          .ldy = N,
                          .alpha = 1,
                          .ldr = N,
                          .activation = clamp > 0 ? NULL : activations[node->ints[EB_INT_CONV_ACTIVATION]],
                          .clamp = clamp,
                          .x_places = places,
                          .x_pieces = pieces,
                          .pieces = p.pieces};
    for (int64_t tile = begin; tile < end; tile++) {
        int is_copy = tile < node->tiles && node->joins, is_join = tile >= node->tiles;
        int64_t job = is_join ? tile - node->tiles : tile, block = is_copy ? job : job / at->column_tiles;
        rows_of_result r = block_at(&p, at, block);
        if (r.rows <= 0) continue;
        const float *x = (const float *)eb_data(eb_input(node, EB_IN_CONV_X), bases) + r.picture * p.in[PLANE] * size;
        x += r.group * p.C;
        float *copied = node->joins ? (float *)((char *)eb_shared(node, bases) + block * copy) : scratch;
        if (p.copies && !is_join) copy_rows(&p, x, r.plane, r.first, r.rows, copied, copy_row, pieces + p.pieces);
        if (is_copy) continue;
        product.x = p.copies ? copied : x + r.plane * p.stride[PLANE] * size + r.first * p.stride[ROW] * p.line;
        product.M = r.rows * p.out[COLUMN];
        product.b = w + r.group * panels;
        product.bias = bias ? bias + r.group * p.O : NULL;
        product.y = y + r.place * N + r.group * p.O;
        product.residual = residual ? residual + r.place * N + r.group * p.O : NULL;
        int64_t o = job % at->column_tiles * at->panels * EB_NR;
        run_panels(&p, &product, o, eb_min(p.O, o + at->panels * EB_NR), multiply);
    }
    return EB_OK;
}

#endif
