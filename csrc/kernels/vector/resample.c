/* resample of floats: weighted sums of a few elements of an axis. x is [outer, n, inner], dense.
 *
 *   inner > 1    a place of the result is a sum of runs of `inner` floats, vector by vector
 *   inner = 1    EB_VL rows at once, transposed into scratch: the vectors then lie across the rows, so that every lane reads
 *                the same places, and a square of results is transposed back
 */
#include "../../ops.h"
#include "vec.h"

typedef struct {
    int64_t each; /* places of the result a tile; rows, if inner is 1 */
} tiling;
EB_NODE_PLAN(tiling)

typedef struct {
    int64_t outer, n, inner, m, taps;
    const void *index;
    int32_t index_type;
    const float *weight;
} problem;

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_RESAMPLE_X), *index = eb_input(node, EB_IN_RESAMPLE_INDEX);
    problem p = {.outer = 1, .inner = 1, .m = index->shape[0], .taps = index->shape[1], .index_type = index->dtype};
    const int64_t axis = node->ints[EB_INT_RESAMPLE_AXIS];
    for (int64_t a = 0; a < axis; a++) p.outer *= x->shape[a];
    p.n = x->shape[axis];
    for (int64_t a = axis + 1; a < x->rank; a++) p.inner *= x->shape[a];
    return p;
}

static eb_status plan(eb_node *node) {
    enum { WORTH = 1 << 14 }; /* floats of the result */
    const eb_tensor *x = eb_input(node, EB_IN_RESAMPLE_X), *index = eb_input(node, EB_IN_RESAMPLE_INDEX);
    const eb_tensor *weight = eb_input(node, EB_IN_RESAMPLE_WEIGHT);
    if ((index->dtype != EB_I64 && index->dtype != EB_I32) || !eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x) || !eb_is_dense(index) || !eb_is_dense(weight)) return EB_NEEDS_DENSE;
    const problem p = describe(node);
    if (eb_size(eb_output(node)) == 0) return EB_OK;
    const int64_t size = p.inner > 1 ? p.inner : p.m, least = p.inner > 1 ? 1 : EB_VL;
    edit_tiling(node)->each = eb_max(1, WORTH / (size * least)) * least;
    node->tiles = eb_ceil_div(p.outer * (p.inner > 1 ? p.m : 1), tiling_of(node)->each);
    node->scratch_bytes = p.inner > 1 ? p.taps * 16 : eb_ceil_div(p.n, EB_VL) * EB_VL * EB_VL * 4;
    return EB_OK;
}

/* Which element tap `t` of place `i` reads: -1 none, -2 one outside of x. */
EB_INLINE int64_t source_of(const problem *p, int64_t i, int64_t t) {
    const int64_t at = i * p->taps + t;
    const int64_t from = p->index_type == EB_I64 ? ((const int64_t *)p->index)[at] : ((const int32_t *)p->index)[at];
    return from < p->n && from >= -1 ? from : -2;
}

/* --- inner > 1 ---------------------------------------------------------------------------------------------------- */

/* y = sum over `count` runs of x, each times its share. */
EB_INLINE void sum_known(const float *const *x, const float *share, const int count, int64_t size, float *y) {
    const float *run[4];
    float part[4]; /* copies: y could be any of them */
    EB_UNROLL
    for (int t = 0; t < count; t++) run[t] = x[t], part[t] = share[t];
    int64_t k = 0;
    for (; k + EB_VL <= size; k += EB_VL) {
        vf sum = vf_set(0);
        EB_UNROLL
        for (int t = 0; t < count; t++) sum += vf_load(run[t] + k) * part[t];
        vf_store(y + k, sum);
    }
    for (; k < size; k++) {
        float sum = 0;
        EB_UNROLL
        for (int t = 0; t < count; t++) sum += run[t][k] * part[t];
        y[k] = sum;
    }
}

static void sum_any(const float *const *x, const float *share, int64_t count, int64_t size, float *y) {
    int64_t k = 0;
    for (; k + EB_VL <= size; k += EB_VL) {
        vf sum = vf_set(0);
        for (int64_t t = 0; t < count; t++) sum += vf_load(x[t] + k) * share[t];
        vf_store(y + k, sum);
    }
    for (; k < size; k++) {
        float sum = 0;
        for (int64_t t = 0; t < count; t++) sum += x[t][k] * share[t];
        y[k] = sum;
    }
}

/* Places [begin, end) of all outer ones. */
static eb_status resample_places(const problem *p, const float *x, float *y, int64_t begin, int64_t end, void *scratch) {
    const float **run = scratch;
    float *share = (float *)(run + p->taps);
    for (int64_t place = begin; place < end; place++) {
        const float *from = x + place / p->m * p->n * p->inner;
        const int64_t i = place % p->m;
        int64_t count = 0;
        for (int64_t t = 0; t < p->taps; t++) {
            const int64_t source = source_of(p, i, t);
            if (source == -2) return EB_INDEX_OUT_OF_RANGE;
            if (source >= 0) run[count] = from + source * p->inner, share[count++] = p->weight[i * p->taps + t];
        }
        if (count == 2)
            sum_known(run, share, 2, p->inner, y + place * p->inner);
        else if (count == 4)
            sum_known(run, share, 4, p->inner, y + place * p->inner);
        else
            sum_any(run, share, count, p->inner, y + place * p->inner);
    }
    return EB_OK;
}

/* --- inner = 1 ---------------------------------------------------------------------------------------------------- */

/* EB_VL columns from `k` on of `rows` rows of x, `size` long, as EB_VL vectors across the rows. */
static void transpose_columns(const float *x, int64_t rows, int64_t size, int64_t k, float *to) {
    vf square[EB_VL];
    const int64_t count = eb_min(EB_VL, size - k);
    for (int64_t r = 0; r < EB_VL; r++) {
        const float *at = x + eb_min(r, rows - 1) * size + k;
        square[r] = count == EB_VL ? vf_load(at) : vf_load_part(at, count);
    }
    vf_transpose(square);
    for (int64_t c = 0; c < EB_VL; c++) vf_store(to + c * EB_VL, square[c]);
}

/* The reverse: place k + c of all rows is vector c. */
static void turn_back(vf *square, float *y, int64_t rows, int64_t size, int64_t k) {
    const int64_t count = eb_min(EB_VL, size - k);
    vf_transpose(square);
    for (int64_t r = 0; r < rows; r++) {
        if (count == EB_VL)
            vf_store(y + r * size + k, square[r]);
        else
            vf_store_part(y + r * size + k, square[r], count);
    }
}

/* Rows [begin, end). */
static eb_status resample_rows(const problem *p, const float *x, float *y, int64_t begin, int64_t end, float *turned) {
    for (int64_t row = begin; row < end; row += EB_VL) {
        const int64_t rows = eb_min(EB_VL, end - row);
        for (int64_t k = 0; k < p->n; k += EB_VL) transpose_columns(x + row * p->n, rows, p->n, k, turned + k * EB_VL);
        for (int64_t i = 0; i < p->m; i += EB_VL) {
            vf square[EB_VL] = {{0}};
            for (int64_t c = 0; c < eb_min(EB_VL, p->m - i); c++) {
                vf sum = vf_set(0);
                for (int64_t t = 0; t < p->taps; t++) {
                    const int64_t source = source_of(p, i + c, t);
                    if (source == -2) return EB_INDEX_OUT_OF_RANGE;
                    if (source >= 0) sum += vf_load(turned + source * EB_VL) * p->weight[(i + c) * p->taps + t];
                }
                square[c] = sum;
            }
            turn_back(square, y + row * p->m, rows, p->m, i);
        }
    }
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    problem p = describe(node);
    p.index = eb_data(eb_input(node, EB_IN_RESAMPLE_INDEX), bases);
    p.weight = eb_data(eb_input(node, EB_IN_RESAMPLE_WEIGHT), bases);
    const float *x = eb_data(eb_input(node, EB_IN_RESAMPLE_X), bases);
    float *y = eb_data(eb_output(node), bases);
    const int64_t each = tiling_of(node)->each, count = p.inner > 1 ? p.outer * p.m : p.outer;
    const int64_t first = begin * each, last = eb_min(count, end * each);
    return p.inner > 1 ? resample_places(&p, x, y, first, last, scratch) : resample_rows(&p, x, y, first, last, scratch);
}
const eb_kernel EB_SYMBOL(resample, vector) = {plan, run};
