/* conv_transpose over one to three spatial axes of channels-last images: products of matrices that compute what is there
 * and nothing else. A span of each axis (phases.h) makes a product (gemm.h), whose rows are found by tables, in x and in y.
 * Nothing is copied.
 *
 *   weight   packed as [phase][group][panel][taps of the phase][channels of x a group][EB_NR], taps in the order of x
 *   tile     some phases of some rows of a plane of the result by some panels of all groups
 */
#include "gemm.h"
#include "packings.h"
#include "phases.h"

typedef struct {
    int64_t rows;         /* rows v of a phase a tile */
    int64_t row_tiles;    /* tiles a plane, over rows */
    int64_t phases;       /* phases a tile */
    int64_t phase_tiles;  /* tiles over phases */
    int64_t panels;       /* panels a tile */
    int64_t column_tiles; /* tiles over panels */
} tiling;
EB_NODE_PLAN(tiling)

/* Where the weight of a phase begins, and how long one of its panels is: floats. */
static int64_t phase_weight(const transposed *p, const phase *f, int64_t *panel) {
    int64_t taps = f[PLANE].before * p->kernel[ROW] * p->kernel[COLUMN] +
                   f[PLANE].taps * (f[ROW].before * p->kernel[COLUMN] + f[ROW].taps * f[COLUMN].before);
    *panel = f[PLANE].taps * f[ROW].taps * f[COLUMN].taps * p->each_in * EB_NR;
    return taps * p->groups * p->panels * p->each_in * EB_NR;
}

/* --- planning and packing ----------------------------------------------------------------------------------------- */

/* As conv.c: rows whose x stays in the second-level cache, and as many tiles as a few threads need. Phases of few products
 * share a tile. */
static void cut(eb_node *node, const transposed *p, int64_t products) {
    enum { X_BYTES = 256 << 10, TILES = 8, HEIGHTS = 8, WORTH = 1 << 19 };
    tiling *at = edit_tiling(node);
    int64_t planes = eb_input(node, EB_IN_CONV_TRANSPOSE_X)->shape[0] * most_places(p, PLANE);
    const int64_t columns = most_places(p, COLUMN), lines = most_places(p, ROW), panels = p->groups * p->panels;
    int64_t fitting = X_BYTES / 4 / eb_max(1, p->in[COLUMN] * p->groups * p->each_in);
    int64_t enough = eb_max(eb_ceil_div(lines * planes * p->phases, TILES), eb_ceil_div(HEIGHTS * EB_MR, columns));
    int64_t rows = eb_max(1, eb_min(eb_min(lines, enough), fitting));
    at->row_tiles = eb_ceil_div(lines, rows);
    at->rows = eb_ceil_div(lines, at->row_tiles);
    int64_t blocks = planes * at->row_tiles, each = products / (blocks * p->phases) + 1;
    at->phases = eb_min(p->phases, eb_max(1, WORTH / each));
    at->phase_tiles = eb_ceil_div(p->phases, at->phases);
    blocks *= at->phase_tiles;
    at->panels = eb_ceil_div(panels, eb_min(panels, eb_ceil_div(TILES, blocks)));
    at->column_tiles = eb_ceil_div(panels, at->panels);
    node->tiles = blocks * at->column_tiles;
}

static eb_status plan(eb_node *node) {
    if (!is_packable(node)) return EB_NOT_APPLICABLE;
    eb_status status = check_conv_operands(node);
    if (status != EB_OK || eb_size(eb_output(node)) == 0) return status;
    transposed p = describe_transposed(node);
    const int64_t N = eb_input(node, EB_IN_CONV_TRANSPOSE_X)->shape[0];
    const int64_t products = EB_MULTIPLY(N, p.groups, p.each_in, p.each_out, pairs_of(&p));
    cut(node, &p, products);
    /* The tiles of a block together visit every phase, those without places too. */
    const int64_t visited = eb_multiply(node->tiles / tiling_of(node)->phase_tiles, visit_bytes(&p));
    if (!eb_is_proportionate(visited, eb_add(eb_operand_bytes(node), products))) return EB_NOT_APPLICABLE;
    node->operations = eb_multiply(2, products);
    node->scratch_bytes = (2 * tiling_of(node)->rows * most_places(&p, COLUMN) + p.taps) * (int64_t)sizeof(int64_t);
    return EB_OK;
}

/* A piece is a phase. */
static int64_t count_phases(const eb_tensor *w, const int64_t *numbers) { return describe_weight(w, numbers).phases; }

static int64_t bytes_of_phases(const eb_tensor *w, const int64_t *numbers) {
    const transposed p = describe_weight(w, numbers);
    return EB_MULTIPLY(p.taps, p.groups, p.panels, p.each_in, EB_NR, 4);
}

/* A panel of the packed weight: where it is, and where the weight's columns and rows of it begin. */
typedef struct {
    int64_t packed, plain, columns;
} phase_panel;

/* Panel `n` of tap `t` of a phase, whose panels begin at `first` of the packed weight. */
static phase_panel panel_of_phase(const transposed *p, const eb_tensor *w, const phase *f, int64_t first, int64_t n, int64_t t) {
    const int64_t o = n % p->panels * EB_NR, taps = f[PLANE].taps * f[ROW].taps * f[COLUMN].taps;
    int64_t at = n / p->panels * p->each_in * w->stride[0] + o * w->stride[1], left = t;
    for (int a = COLUMN; a >= PLANE; left /= f[a].taps, a--) {
        const int own = axis_of(w->rank, a);
        if (own >= 0) at += (f[a].tap - left % f[a].taps * f[a].apart) * w->stride[own + 2];
    }
    return (phase_panel){first + (n * taps + t) * p->each_in * EB_NR, at, eb_min(EB_NR, p->each_out - o)};
}

/* All panels of phases [begin, end): from `plain` to `packed`, or back. */
static void move_phases(const eb_tensor *w, const int64_t *numbers, const eb_float_unaligned *plain, float *packed,
                        float *back, int64_t begin, int64_t end) {
    const transposed p = describe_weight(w, numbers);
    for (int64_t number = begin; number < end; number++) {
        phase f[AXES];
        int64_t panel;
        phases_of(&p, number, f);
        const int64_t first = phase_weight(&p, f, &panel), taps = f[PLANE].taps * f[ROW].taps * f[COLUMN].taps;
        for (int64_t i = 0; i < p.groups * p.panels * taps; i++) {
            const phase_panel at = panel_of_phase(&p, w, f, first, i / taps, i % taps);
            if (back)
                unpack_panel(packed + at.packed, w->stride[0], w->stride[1], p.each_in, at.columns, back + at.plain);
            else
                pack_panel(plain + at.plain, w->stride[0], w->stride[1], p.each_in, at.columns, packed + at.packed);
        }
    }
}

static void pack_phases(const eb_tensor *w, const int64_t *numbers, const void *source, void *destination, int64_t begin,
                        int64_t end) {
    move_phases(w, numbers, source, destination, NULL, begin, end);
}

static void unpack_phases(const eb_tensor *w, const int64_t *numbers, const void *packed, void *destination) {
    move_phases(w, numbers, NULL, (float *)packed, destination, 0, count_phases(w, numbers));
}

static const eb_packing phases = {EB_PACKING_NAME("phases"), bytes_of_phases, count_phases, pack_phases, unpack_phases};

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    if (input != EB_IN_CONV_TRANSPOSE_WEIGHT || !is_packable(node)) return NULL;
    numbers_of(node, numbers);
    return &phases;
}

/* --- running ------------------------------------------------------------------------------------------------------ */

/* What the spans of a tile have in common. */
typedef struct {
    const transposed *p;
    phase f[AXES];
    const float *x, *weight; /* the picture; the phase's */
    float *y;
    const float *bias, *residual; /* of y's picture */
    int64_t panel, panel_begin, panel_end;
    int64_t *x_places, *y_places, *pieces;
    int64_t activation;
} work;

/* Where the places of a span of each axis begin, in x at their first tap and in y; answers how many. */
static int64_t fill_places(const work *k, const span *s) {
    const transposed *p = k->p;
    const int64_t C = p->groups * p->each_in, O = p->groups * p->each_out;
    const int is_reached = s[PLANE].tap_end && s[ROW].tap_end && s[COLUMN].tap_end;
    int64_t M = 0, from[AXES], to[AXES], v[AXES];
    for (v[PLANE] = s[PLANE].begin; v[PLANE] < s[PLANE].end; v[PLANE]++)
        for (v[ROW] = s[ROW].begin; v[ROW] < s[ROW].end; v[ROW]++)
            for (v[COLUMN] = s[COLUMN].begin; v[COLUMN] < s[COLUMN].end; v[COLUMN]++, M++) {
                for (int a = 0; a < AXES; a++) {
                    from[a] = v[a] + k->f[a].first + s[a].tap * k->f[a].gap;
                    to[a] = v[a] * p->stride[a] + k->f[a].remainder - p->low[a];
                }
                k->x_places[M] = 0; /* outside of x the product may overflow */
                if (is_reached) k->x_places[M] = ((from[PLANE] * p->in[ROW] + from[ROW]) * p->in[COLUMN] + from[COLUMN]) * C;
                k->y_places[M] = ((to[PLANE] * p->out[ROW] + to[ROW]) * p->out[COLUMN] + to[COLUMN]) * O;
            }
    return M;
}

/* Taps of some planes and rows of the kernel and of the span's columns, which lie side by side in the packed weight. */
typedef struct {
    int64_t plane, planes, row, rows;
} part;

/* Adds the products of a part to y; what lies there only counts behind the first part. */
static void multiply_part(const work *k, const span *s, const part *t, eb_product product) {
    const transposed *p = k->p;
    const phase *f = k->f;
    const int64_t C = p->groups * p->each_in, columns = s[COLUMN].tap_end - s[COLUMN].tap;
    const int64_t joined = f[COLUMN].gap == 1 && p->groups == 1 ? columns : 1; /* taps that lie in one piece of x */
    const int64_t line = p->in[COLUMN] * C, plane = p->in[ROW] * line;
    int64_t n = 0;
    for (int64_t i = 0; i < t->planes; i++)
        for (int64_t j = 0; j < t->rows; j++)
            for (int64_t c = 0; c < columns; c += joined)
                k->pieces[n++] = (t->plane - s[PLANE].tap + i) * f[PLANE].gap * plane +
                                 (t->row - s[ROW].tap + j) * f[ROW].gap * line + c * f[COLUMN].gap * C;
    product.K = joined * p->each_in;
    product.pieces = n;
    product.b += ((t->plane * f[ROW].taps + t->row) * f[COLUMN].taps + s[COLUMN].tap) * p->each_in * EB_NR;
    multiply_panel(&product);
}

/* One panel of the places in the tables. Where the span lacks columns or rows of the kernel, its taps are no one run of the
 * packed weight, but several: each adds to what the one before left in y. */
static void multiply_span(const work *k, const span *s, eb_product product) {
    const int64_t planes = s[PLANE].tap_end - s[PLANE].tap, rows = s[ROW].tap_end - s[ROW].tap;
    const int64_t columns = s[COLUMN].tap_end - s[COLUMN].tap;
    const int whole_lines = columns == k->f[COLUMN].taps, whole_planes = whole_lines && rows == k->f[ROW].taps;
    const float clamp = clamp_of(k->activation);
    const eb_activation activation = clamp > 0 ? NULL : activations[k->activation];
    if (!planes || !rows || !columns) { /* no tap reaches these places */
        k->pieces[0] = 0;
        product.pieces = 1, product.K = 0;
        product.clamp = clamp, product.activation = activation;
        multiply_panel(&product);
        return;
    }
    part t = {.planes = whole_planes ? planes : 1, .rows = whole_lines ? rows : 1};
    for (t.plane = s[PLANE].tap; t.plane < s[PLANE].tap_end; t.plane += t.planes)
        for (t.row = s[ROW].tap; t.row < s[ROW].tap_end; t.row += t.rows) {
            const int is_last = t.plane + t.planes == s[PLANE].tap_end && t.row + t.rows == s[ROW].tap_end;
            product.clamp = is_last ? clamp : 0;
            product.activation = is_last ? activation : NULL;
            multiply_part(k, s, &t, product);
            product.bias = NULL;
            product.residual = product.y;
        }
}

/* The panels of a span of each axis. */
static void run_span(const work *k, const span *s) {
    const transposed *p = k->p;
    const int64_t ldy = p->stride[COLUMN] * p->groups * p->each_out;
    const eb_product whole = {.M = fill_places(k, s),
                              .x_row = p->groups * p->each_in,
                              .x_k = 1,
                              .ldb = EB_NR,
                              .ldy = ldy,
                              .alpha = 1,
                              .ldr = ldy,
                              .x_places = k->x_places,
                              .x_pieces = k->pieces,
                              .y_places = k->y_places};
    for (int64_t n = k->panel_begin; n < k->panel_end; n++) {
        const int64_t group = n / p->panels, o = n % p->panels * EB_NR, channel = group * p->each_out + o;
        eb_product product = whole;
        product.columns = eb_min(EB_NR, p->each_out - o);
        product.x = k->x + group * p->each_in;
        product.b = k->weight + n * k->panel;
        product.y = k->y + channel;
        product.bias = k->bias ? k->bias + channel : NULL;
        product.residual = k->residual ? k->residual + channel : NULL;
        multiply_span(k, s, product);
    }
}

/* Rows [first, last) of plane `plane` of a phase, all counted from its first ones. */
static void run_phase(const work *k, int64_t plane, int64_t first, int64_t last) {
    const phase *f = k->f;
    span s[AXES];
    if (f[PLANE].begin + plane >= f[PLANE].end) return;
    s[PLANE] = reach(&f[PLANE], k->p->in[PLANE], f[PLANE].begin + plane);
    last = eb_min(f[ROW].end, f[ROW].begin + last);
    for (int64_t row = f[ROW].begin + first; row < last; row = s[ROW].end) {
        s[ROW] = span_at(&f[ROW], k->p->in[ROW], row, last);
        for (int64_t column = f[COLUMN].begin; column < f[COLUMN].end; column = s[COLUMN].end) {
            s[COLUMN] = span_at(&f[COLUMN], k->p->in[COLUMN], column, f[COLUMN].end);
            run_span(k, s);
        }
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const transposed p = describe_transposed(node);
    const tiling *at = tiling_of(node);
    const int64_t most = at->rows * most_places(&p, COLUMN), planes = most_places(&p, PLANE);
    const int64_t x_size = p.in[PLANE] * p.in[ROW] * p.in[COLUMN] * p.groups * p.each_in;
    const int64_t y_size = p.out[PLANE] * p.out[ROW] * p.out[COLUMN] * p.groups * p.each_out;
    const float *residual = eb_optional_data(node, EB_IN_CONV_TRANSPOSE_RESIDUAL, bases);
    work k = {.p = &p,
              .bias = eb_optional_data(node, EB_IN_CONV_TRANSPOSE_BIAS, bases),
              .x_places = scratch,
              .activation = node->ints[EB_INT_CONV_TRANSPOSE_ACTIVATION]};
    k.y_places = k.x_places + most;
    k.pieces = k.y_places + most;
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t phases = tile / at->column_tiles, block = phases / at->phase_tiles;
        const int64_t slice = block / at->row_tiles, picture = slice / planes;
        const int64_t first = block % at->row_tiles * at->rows, number = phases % at->phase_tiles * at->phases;
        k.panel_begin = tile % at->column_tiles * at->panels;
        k.panel_end = eb_min(p.groups * p.panels, k.panel_begin + at->panels);
        k.x = (const float *)eb_data(eb_input(node, EB_IN_CONV_TRANSPOSE_X), bases) + picture * x_size;
        k.y = (float *)eb_data(eb_output(node), bases) + picture * y_size;
        k.residual = residual ? residual + picture * y_size : NULL;
        for (int64_t n = number; n < eb_min(p.phases, number + at->phases); n++) {
            phases_of(&p, n, k.f);
            k.weight = (const float *)eb_data(eb_input(node, EB_IN_CONV_TRANSPOSE_WEIGHT), bases) +
                       phase_weight(&p, k.f, &k.panel);
            run_phase(&k, slice % planes, first, first + at->rows);
        }
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(conv_transpose, phases) = {plan, run, choose_packing};
