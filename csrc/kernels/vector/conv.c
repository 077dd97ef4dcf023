/* conv over one to three spatial axes of channels-last images, as an implicit product of matrices: rows are places of the
 * result, k runs over the kernel's planes, rows and columns, then the channels. The taps of a row of the kernel are
 * neighbours in x, so k is made of pieces that lie in one piece in x: the product finds them by two tables (gemm.h), of
 * where a place begins and of where a piece does from there. Nothing is unfolded, and sums stay in registers over pieces.
 *
 * Around a padded x its rows are first copied into scratch with their zeros. The weight is packed into panels (gemm.h)
 * whose k is in that order.
 */
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
    int64_t C, O, in[AXES], out[AXES], kernel[AXES], stride[AXES], low[AXES], dilation[AXES];
    int copies;
    /* What a tile reads, x itself or the copy: floats from column to column, row to row and one plane of the kernel to
     * the next; how far places lie apart; the copy's rows and columns, every `pick`-th of x. */
    int64_t pitch, line, plane, step[AXES], rows, columns, pick[AXES];
    int64_t taps, pieces, depth; /* taps that lie in one piece of x, how many such pieces, how long they are */
} problem;

/* Rows or columns of what a tile reads that `places` of the result reach over. */
static inline int64_t reach_of(const problem *p, int axis, int64_t places) {
    return eb_add(eb_multiply(eb_max(0, places - 1), p->step[axis]),
                  eb_multiply(p->kernel[axis] - 1, p->dilation[axis]) + 1);
}

/* Floats that lie a multiple of 2 KiB apart share two sets of a first-level cache, of 8 ways each: fourteen rows of a
 * micro-tile leave none for the panel. In a copy, pixels lie a cache line further apart. */
enum { COLLIDING = 512, LINE = 16 };

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_CONV_X), *w = eb_input(node, EB_IN_CONV_WEIGHT), *y = eb_output(node);
    const int64_t *ints = node->ints;
    problem p = {.C = x->shape[x->rank - 1], .O = y->shape[y->rank - 1]};
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
    const int is_linear = p.kernel[PLANE] * p.kernel[ROW] * p.kernel[COLUMN] == 1;
    const int collides = p.stride[COLUMN] % COLLIDING * (p.C % COLLIDING) % COLLIDING == 0;
    p.copies |= is_linear && collides;
    for (int a = ROW; a <= COLUMN; a++) {
        p.pick[a] = p.copies && p.kernel[a] == 1 ? p.stride[a] : 1;
        p.step[a] = p.stride[a] / p.pick[a];
    }
    p.rows = reach_of(&p, ROW, tiling_of(node)->rows);
    p.columns = p.copies ? reach_of(&p, COLUMN, p.out[COLUMN]) : p.in[COLUMN];
    p.pitch = p.C + (p.copies && collides ? LINE : 0);
    p.line = eb_multiply(p.columns, p.pitch);
    p.plane = p.copies ? eb_multiply(p.rows, p.line) : EB_PRODUCT(p.dilation[PLANE], p.in[ROW], p.line);
    const int is_dense = p.pitch == p.C;
    p.taps = is_dense && p.dilation[COLUMN] == 1 ? p.kernel[COLUMN] : 1;
    if (is_dense && p.taps == p.columns && p.dilation[ROW] == 1) p.taps *= p.kernel[ROW];
    p.pieces = p.kernel[PLANE] * p.kernel[ROW] * p.kernel[COLUMN] / p.taps;
    p.depth = p.taps * p.C;
    return p;
}

/* Rows of the result whose rows of x stay in the second-level cache, and as many tiles as a few threads need: fewer rows
 * where that leaves some micro-tiles, or else fewer panels. */
static void cut(eb_node *node) {
    enum { X_BYTES = 256 << 10, TILES = 8, HEIGHTS = 8 };
    problem p = describe(node);
    int64_t planes = eb_input(node, EB_IN_CONV_X)->shape[0] * p.out[PLANE], panels = eb_ceil_div(p.O, EB_NR);
    int64_t fitting = X_BYTES / 4 / eb_max(1, eb_multiply(p.kernel[PLANE], p.line));
    int64_t enough = eb_max(eb_ceil_div(p.out[ROW] * planes, TILES), eb_ceil_div(HEIGHTS * EB_MR, p.out[COLUMN]));
    int64_t most = (fitting - reach_of(&p, ROW, 1)) / p.step[ROW] + 1;
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

/* scratch: the copy, the table of places, the table of pieces. Where several tiles would copy the same rows, tiles do no
 * more than that, into shared memory, and joins multiply. */
static int64_t copy_bytes(const problem *p) {
    return p->copies ? eb_multiply(eb_ceil_div(eb_multiply(p->kernel[PLANE], p->plane), 16), 64) : 0;
}

static eb_status plan(eb_node *node) {
    if (!node->ints[EB_INT_CONV_CHANNELS_LAST] || node->ints[EB_INT_CONV_GROUPS] != 1) return EB_NOT_APPLICABLE;
    eb_status status = check_conv_operands(node);
    if (status != EB_OK || eb_size(eb_output(node)) == 0) return status;
    cut(node);
    problem p = describe(node);
    const int64_t tables = (tiling_of(node)->rows * p.out[COLUMN] + p.pieces) * (int64_t)sizeof(int64_t);
    const int64_t copied = eb_multiply(node->tiles, copy_bytes(&p)); /* each tile copies its rows, also those of others */
    const int64_t multiply_adds = eb_multiply(eb_size(eb_output(node)), eb_multiply(p.pieces, p.depth));
    if (!eb_is_proportionate(copied, eb_add(eb_operand_bytes(node), multiply_adds))) return EB_NOT_APPLICABLE;
    node->shared_bytes = node->joins ? copied : 0;
    node->scratch_bytes = tables + (node->joins ? 0 : copy_bytes(&p));
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const int fits = node->ints[EB_INT_CONV_CHANNELS_LAST] && node->ints[EB_INT_CONV_GROUPS] == 1;
    return input == EB_IN_CONV_WEIGHT && fits ? choose_packing_of(&panels_packing, 0, 1, numbers) : NULL;
}

/* A row of x with its zeros on both sides; x is NULL for one of the padding. */
static void copy_row(const problem *p, const float *x, float *to) {
    const int64_t pick = p->pick[COLUMN], bytes = p->C * 4, whole = pick == 1 && p->pitch == p->C;
    int64_t begin = eb_min(eb_ceil_div(p->low[COLUMN], pick), p->columns);
    int64_t end = eb_max(begin, eb_min(eb_ceil_div(p->low[COLUMN] + p->in[COLUMN], pick), p->columns));
    if (!x) begin = end = p->columns;
    memset(to, 0, (size_t)(begin * p->pitch) * 4);
    if (whole && end > begin) memcpy(to + begin * p->C, x + (begin - p->low[COLUMN]) * p->C, (size_t)((end - begin) * bytes));
    for (int64_t c = begin; c < end && !whole; c++)
        memcpy(to + c * p->pitch, x + (c * pick - p->low[COLUMN]) * p->C, (size_t)bytes);
    memset(to + end * p->pitch, 0, (size_t)((p->columns - end) * p->pitch) * 4);
}

/* What `rows` rows of the result from `first` of plane `plane` on read of one picture. */
static void copy_rows(const problem *p, const float *x, int64_t plane, int64_t first, int64_t rows, float *to) {
    const int64_t line = p->in[COLUMN] * p->C, reach = reach_of(p, ROW, rows);
    for (int64_t i = 0; i < p->kernel[PLANE]; i++) {
        int64_t from_plane = plane * p->stride[PLANE] + i * p->dilation[PLANE] - p->low[PLANE];
        int is_plane = from_plane >= 0 && from_plane < p->in[PLANE];
        for (int64_t r = 0; r < reach; r++) {
            int64_t from = first * p->stride[ROW] + r * p->pick[ROW] - p->low[ROW];
            int is_row = is_plane && from >= 0 && from < p->in[ROW];
            copy_row(p, is_row ? x + (from_plane * p->in[ROW] + from) * line : NULL, to + i * p->plane + r * p->line);
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

/* The panels of one tile, each over all of the tile's places. */
static void run_panels(const problem *p, const eb_product *whole, int64_t o, int64_t o_end) {
    for (; o < o_end; o += EB_NR) {
        eb_product product = *whole;
        product.columns = eb_min(EB_NR, p->O - o);
        product.b += o * p->pieces * p->depth;
        product.y += o;
        if (product.bias) product.bias += o;
        if (product.residual) product.residual += o;
        multiply_panel(&product);
    }
}

/* Some rows of a plane of a picture of the result: block `i` of all. */
typedef struct {
    int64_t picture, plane, first, rows, place; /* place: the first of its results, counted from the first of all */
} rows_of_result;

static rows_of_result block_at(const problem *p, const tiling *at, int64_t i) {
    int64_t slice = i / at->row_tiles, first = i % at->row_tiles * at->rows;
    int64_t rows = eb_min(at->rows, p->out[ROW] - first);
    return (rows_of_result){slice / p->out[PLANE], slice % p->out[PLANE], first, rows,
                            (slice * p->out[ROW] + first) * p->out[COLUMN]};
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const problem p = describe(node);
    const tiling *at = tiling_of(node);
    const int64_t size = p.in[ROW] * p.in[COLUMN] * p.C, copy = copy_bytes(&p);
    int64_t *places = (int64_t *)((char *)scratch + (node->joins ? 0 : copy));
    int64_t *pieces = places + at->rows * p.out[COLUMN];
    const float *residual = eb_optional_data(node, EB_IN_CONV_RESIDUAL, bases);
    float *y = eb_data(eb_output(node), bases);
    const float clamp = clamp_of(node->ints[EB_INT_CONV_ACTIVATION]);
    if (begin < end) fill_tables(&p, at->rows, places, pieces);
    eb_product product = {.K = p.depth,
                          .x_row = eb_multiply(p.step[COLUMN], p.pitch),
                          .x_k = 1,
                          .b = eb_data(eb_input(node, EB_IN_CONV_WEIGHT), bases),
                          .ldb = EB_NR,
                          .ldy = p.O,
                          .alpha = 1,
                          .bias = eb_optional_data(node, EB_IN_CONV_BIAS, bases),
                          .ldr = p.O,
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
        float *copied = node->joins ? (float *)((char *)eb_shared(node, bases) + block * copy) : scratch;
        if (p.copies && !is_join) copy_rows(&p, x, r.plane, r.first, r.rows, copied);
        if (is_copy) continue;
        product.x = p.copies ? copied : x + r.plane * p.stride[PLANE] * size + r.first * p.stride[ROW] * p.line;
        product.M = r.rows * p.out[COLUMN];
        product.y = y + r.place * p.O;
        product.residual = residual ? residual + r.place * p.O : NULL;
        int64_t o = job % at->column_tiles * at->panels * EB_NR;
        run_panels(&p, &product, o, eb_min(p.O, o + at->panels * EB_NR));
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(conv, direct) = {plan, run, choose_packing};
