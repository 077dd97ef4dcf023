/* layer_norm and rms_norm of float64, over dense rows of the trailing axes. As norm.c does, each takes the mean of centred
 * squares, and a row is read again for each pass. */
#include "../../ops.h"
#include "vec.h"

enum {
    TILE_ELEMENTS = 16384,
    WIDTH = EB_VL / 2, /* doubles in a vector */
    SUMS = 4           /* independent ones, so that additions do not wait for each other */
};
typedef double vd_unaligned __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));

typedef struct {
    const double *x, *addend, *weight, *bias; /* x + addend; all but x may be absent */
    double *y;
    int64_t n;
} row;

EB_INLINE vd take(const row *r, int64_t i) {
    const vd v = *(const vd_unaligned *)(r->x + i);
    return r->addend ? v + *(const vd_unaligned *)(r->addend + i) : v;
}
EB_INLINE double take_one(const row *r, int64_t i) { return r->addend ? r->x[i] + r->addend[i] : r->x[i]; }

/* The sum of a row, or that of the squared distances from `centre`. */
EB_INLINE double sum_row(const row *r, double centre, const int squares) {
    vd sums[SUMS] = {{0}};
    int64_t i = 0;
    for (; i + SUMS * WIDTH <= r->n; i += SUMS * WIDTH)
        EB_UNROLL
        for (int s = 0; s < SUMS; s++) {
            const vd v = take(r, i + s * WIDTH) - centre;
            sums[s] += squares ? v * v : v;
        }
    const vd all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    double lanes[WIDTH], total = 0;
    memcpy(lanes, &all, sizeof lanes);
    for (int l = 0; l < WIDTH; l++) total += lanes[l];
    for (; i < r->n; i++) {
        const double v = take_one(r, i) - centre;
        total += squares ? v * v : v;
    }
    return total;
}

static void norm_row(const row *r, double epsilon, int is_centred) {
    const double mean = is_centred ? sum_row(r, 0, 0) / (double)r->n : 0;
    const double scale = 1 / sqrt(sum_row(r, mean, 1) / (double)r->n + epsilon);
    int64_t i = 0;
    for (; i + WIDTH <= r->n; i += WIDTH) {
        vd v = (take(r, i) - mean) * scale;
        if (r->weight) v *= *(const vd_unaligned *)(r->weight + i);
        if (r->bias) v += *(const vd_unaligned *)(r->bias + i);
        *(vd_unaligned *)(r->y + i) = v;
    }
    for (; i < r->n; i++) {
        double v = (take_one(r, i) - mean) * scale;
        if (r->weight) v *= r->weight[i];
        if (r->bias) v += r->bias[i];
        r->y[i] = v;
    }
}

typedef struct {
    int64_t n, rows; /* elements a row, and rows a tile */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ROWS_X), *y = eb_output(node);
    if (x->dtype != EB_F64 || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    for (int i = 0; i < node->n_inputs; i++)
        if (eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    const int64_t n = eb_loop_axes(x, x->rank - (int)node->ints[EB_INT_NORM_AXES], x->rank).count;
    edit_tiling(node)->n = n;
    edit_tiling(node)->rows = eb_max(1, TILE_ELEMENTS / eb_max(1, n));
    node->tiles = n ? eb_ceil_div(eb_size(x) / n, tiling_of(node)->rows) : 0;
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int is_centred) {
    const int64_t n = tiling_of(node)->n, last = eb_min(eb_size(eb_output(node)) / n, end * tiling_of(node)->rows);
    const double *x = eb_data(eb_input(node, EB_IN_ROWS_X), bases);
    const double *addend = eb_optional_data(node, is_centred ? EB_IN_LAYER_NORM_ADDEND : EB_IN_RMS_NORM_ADDEND, bases);
    double *y = eb_data(eb_output(node), bases);
    row r = {.n = n, .weight = eb_optional_data(node, EB_IN_NORM_WEIGHT, bases)};
    if (is_centred) r.bias = eb_optional_data(node, EB_IN_LAYER_NORM_BIAS, bases);
    for (int64_t i = begin * tiling_of(node)->rows; i < last; i++) {
        r.x = x + i * n;
        r.y = y + i * n;
        if (addend) r.addend = addend + i * n;
        norm_row(&r, node->reals[0], is_centred);
    }
    return EB_OK;
}

static eb_status run_layer_norm(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run(node, bases, begin, end, 1);
}
static eb_status run_rms_norm(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run(node, bases, begin, end, 0);
}
const eb_kernel EB_PASTE(any_layer_norm, __, EB_ISA, _, doubles, ) = {plan, run_layer_norm};
const eb_kernel EB_PASTE(any_rms_norm, __, EB_ISA, _, doubles, ) = {plan, run_rms_norm};
