/* layer_norm, rms_norm, softmax and log_softmax over rows, and embedding_norm over rows of tables. A row is dense, but
 * need not follow the one before it. It is read again for each pass: it lies in the first-level cache. Variance is the mean of centred squares, not the difference of
 * two large sums. */
#include "../../ops.h"
#include "../../stream.h"
#include "math.h"
#include "table.h"

enum {
    TILE_ELEMENTS = 16384,
    BLOCK_ELEMENTS = 16384, /* elements in one sum: a multiple of LANES vectors on every ISA */
    LANES = 4 /* independent sums, so that additions do not wait for each other */
};

typedef struct {
    int64_t n;      /* elements a row */
    int64_t first;  /* the first of a row's axes */
    int64_t rows;   /* rows a tile */
    int64_t stream; /* whether the result goes past the caches */
} tiling;
EB_NODE_PLAN(tiling)

typedef struct {
    const float *x, *weight, *bias, *addend, *second; /* x + addend + second: the latter two may be absent, in order */
    float *y;
    int64_t n;
    float epsilon;
    int streams;
} row;

/* A vector of the result. */
EB_INLINE void put(const row *r, int64_t i, vf v) {
    if (r->streams)
        vf_stream(r->y + i, v);
    else
        vf_store(r->y + i, v);
}

/* Elements from i on, with as many of addend and second as `adds` says; `keeps` the sum in y. */
EB_INLINE vf take(const row *r, int64_t i, int adds, int keeps) {
    vf v = vf_load(r->x + i);
    if (adds > 0) v += vf_load(r->addend + i);
    if (adds > 1) v += vf_load(r->second + i);
    if (keeps) vf_store(r->y + i, v);
    return v;
}
EB_INLINE vf take_part(const row *r, int64_t i, int64_t count, int adds, int keeps) {
    vf v = vf_load_part(r->x + i, count);
    if (adds > 0) v += vf_load_part(r->addend + i, count);
    if (adds > 1) v += vf_load_part(r->second + i, count);
    if (keeps) vf_store_part(r->y + i, v, count);
    return v;
}

/* Sum over a row of what `term` makes of each vector v; lanes beyond the row do not count. The sums of blocks are added:
 * one sum over millions of elements would lose the last bits of each. */
#define EB_ROW_SUM(result, r, adds, keeps, v, term)                                 \
    {                                                                               \
        vf total_ = vf_set(0);                                                      \
        for (int64_t i_ = 0; i_ < (r)->n;) {                                        \
            const int64_t end_ = eb_min((r)->n, i_ + BLOCK_ELEMENTS);               \
            vf sums_[LANES] = {{0}};                                                \
            for (; i_ + LANES * EB_VL <= end_; i_ += LANES * EB_VL)                 \
                for (int l_ = 0; l_ < LANES; l_++) {                                \
                    vf v = take(r, i_ + l_ * EB_VL, adds, keeps);                   \
                    sums_[l_] += term;                                              \
                }                                                                   \
            for (; i_ < end_; i_ += EB_VL) {                                        \
                int64_t count_ = eb_min(EB_VL, end_ - i_);                          \
                vf v = take_part(r, i_, count_, adds, keeps);                       \
                sums_[0] += vf_select(vf_first(count_), term, vf_set(0));           \
            }                                                                       \
            total_ += (sums_[0] + sums_[1]) + (sums_[2] + sums_[3]);                \
        }                                                                           \
        result = vf_sum(total_);                                                    \
    }

/* (x - mean) * scale, then weight and bias where there are any. */
EB_INLINE void normalise(const row *r, int adds, float mean, float scale) {
    int64_t i = 0, n = r->n;
    for (; i + EB_VL <= n; i += EB_VL) {
        vf v = (take(r, i, adds, 0) - mean) * scale;
        if (r->weight) v *= vf_load(r->weight + i);
        if (r->bias) v += vf_load(r->bias + i);
        put(r, i, v);
    }
    if (i < n) {
        vf v = (take_part(r, i, n - i, adds, 0) - mean) * scale;
        if (r->weight) v *= vf_load_part(r->weight + i, n - i);
        if (r->bias) v += vf_load_part(r->bias + i, n - i);
        vf_store_part(r->y + i, v, n - i);
    }
}

EB_INLINE void layer_norm_of(row *r, int adds, int keeps) {
    float mean, square;
    EB_ROW_SUM(mean, r, adds, keeps, v, v)
    mean /= (float)r->n;
    if (keeps) r->x = r->y, adds = 0;
    EB_ROW_SUM(square, r, adds, 0, v, (v - mean) * (v - mean))
    normalise(r, adds, mean, 1 / sqrtf(square / (float)r->n + r->epsilon));
}

EB_INLINE void rms_norm_of(row *r, int adds, int keeps) {
    float square;
    EB_ROW_SUM(square, r, adds, keeps, v, v * v)
    if (keeps) r->x = r->y, adds = 0;
    normalise(r, adds, 0, 1 / sqrtf(square / (float)r->n + r->epsilon));
}

/* `norm` of the row with what is added to it. The sum is kept for the later passes; where the result goes past the caches
 * it is made anew in each, since a store waits for all before it: those of a row would wait for the slow ones of the row
 * before. */
EB_INLINE void norm_of_sum(row *r, void (*norm)(row *, int, int)) {
    if (!r->addend)
        norm(r, 0, 0);
    else if (r->streams)
        r->second ? norm(r, 2, 0) : norm(r, 1, 0);
    else if (r->second)
        norm(r, 2, 1);
    else
        norm(r, 1, 1);
}
static void layer_norm_row(row *r) { norm_of_sum(r, layer_norm_of); }
static void rms_norm_row(row *r) { norm_of_sum(r, rms_norm_of); }

/* The largest element; NaN does not count (it comes back through the sum). */
static float largest(const float *x, int64_t n) {
    vf top[LANES];
    for (int l = 0; l < LANES; l++) top[l] = vf_set(-INFINITY);
    int64_t i = 0;
    for (; i + LANES * EB_VL <= n; i += LANES * EB_VL)
        for (int l = 0; l < LANES; l++) top[l] = vf_max(vf_load(x + i + l * EB_VL), top[l]);
    for (; i + EB_VL <= n; i += EB_VL) top[0] = vf_max(vf_load(x + i), top[0]);
    float most = vf_largest(vf_max(vf_max(top[0], top[1]), vf_max(top[2], top[3])));
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

static void softmax_row(row *r) {
    float top = largest(r->x, r->n);
    vf total = vf_set(0);
    int64_t i = 0, n = r->n;
    while (i < n) {
        const int64_t end = eb_min(n, i + BLOCK_ELEMENTS);
        vf sum = vf_set(0);
        for (; i + EB_VL <= end; i += EB_VL) {
            vf v = vf_exp_nonpositive(vf_load(r->x + i) - top);
            vf_store(r->y + i, v);
            sum += v;
        }
        if (i < end) {
            vf v = vf_exp_nonpositive(vf_load_part(r->x + i, end - i) - top);
            vf_store_part(r->y + i, v, end - i);
            sum += vf_select(vf_first(end - i), v, vf_set(0));
            i = end;
        }
        total += sum;
    }
    float factor = 1 / vf_sum(total);
    for (i = 0; i + EB_VL <= n; i += EB_VL) vf_store(r->y + i, vf_load(r->y + i) * factor);
    for (; i < n; i++) r->y[i] *= factor;
}

/* softmax of whole vectors past the caches. A row's powers are kept, and written out scaled while those of the next row
 * are made: alone they would have to wait for the slow stores of the row before. */
typedef struct {
    float *kept, *y, factor;
    int64_t n;
} pending_row;

EB_INLINE void put_pending(const pending_row *before, int64_t i) {
    vf_stream(before->y + i, vf_load(before->kept + i) * before->factor);
}

static void softmax_past_caches(const row *r, pending_row *before, float *kept) {
    float top = largest(r->x, r->n);
    vf total = vf_set(0);
    for (int64_t i = 0; i < r->n;) {
        const int64_t end = eb_min(r->n, i + BLOCK_ELEMENTS);
        vf sum = vf_set(0);
        for (; i < end; i += EB_VL) {
            vf v = vf_exp_nonpositive(vf_load(r->x + i) - top);
            vf_store(kept + i, v);
            sum += v;
            if (before->y) put_pending(before, i);
        }
        total += sum;
    }
    *before = (pending_row){kept, r->y, 1 / vf_sum(total), r->n};
}

static void log_softmax_row(row *r) {
    float top = largest(r->x, r->n), sum;
    EB_ROW_SUM(sum, r, 0, 0, v, vf_exp_nonpositive(v - top))
    float log_sum = logf(sum);
    int64_t i = 0;
    for (; i + EB_VL <= r->n; i += EB_VL) put(r, i, (vf_load(r->x + i) - top) - log_sum);
    for (; i < r->n; i++) r->y[i] = (r->x[i] - top) - log_sum;
}

/* --- kernels ------------------------------------------------------------------------------------------------------- */

enum { NO_ADDEND = EB_IN_NORM_WEIGHT }; /* an input that both softmaxes lack, the weight of the norms */

/* Rows are the axes from `first` on. */
static eb_status plan_norm_rows(eb_node *node, int first) {
    const eb_tensor *x = eb_input(node, EB_IN_ROWS_X), *y = eb_output(node);
    if (!eb_is_dense(y)) return EB_NOT_APPLICABLE;
    eb_loop rows = eb_loop_axes(x, 0, first);
    if (!eb_is_dense_from(x, first)) return EB_NEEDS_DENSE;
    for (int i = 1; i < node->n_inputs; i++)
        if (eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    edit_tiling(node)->n = eb_loop_axes(x, first, x->rank).count;
    edit_tiling(node)->first = first;
    edit_tiling(node)->rows = eb_max(1, TILE_ELEMENTS / eb_max(1, tiling_of(node)->n));
    node->tiles = tiling_of(node)->n ? eb_ceil_div(rows.count, tiling_of(node)->rows) : 0;
    return EB_OK;
}

/* Whether the result goes past the caches. */
static void choose_streams(eb_node *node) {
    edit_tiling(node)->stream = tiling_of(node)->n % EB_VL == 0 && eb_size(eb_output(node)) * 4 >= EB_STREAM_BYTES;
}

static eb_status plan_trailing(eb_node *node) {
    const int rank = eb_input(node, EB_IN_ROWS_X)->rank;
    eb_status status = plan_norm_rows(node, rank - (int)node->ints[EB_INT_NORM_AXES]);
    if (status == EB_OK) choose_streams(node);
    return status;
}

static eb_status plan_last_axis(eb_node *node) {
    int rank = eb_input(node, EB_IN_ROWS_X)->rank;
    if (rank == 0 || node->ints[EB_INT_SOFTMAXES_AXIS] != rank - 1) return EB_NOT_APPLICABLE;
    eb_status status = plan_norm_rows(node, rank - 1);
    if (status == EB_OK) choose_streams(node);
    return status;
}

static eb_status plan_softmax(eb_node *node) {
    eb_status status = plan_last_axis(node);
    if (tiling_of(node)->stream) node->scratch_bytes = 2 * tiling_of(node)->n * 4; /* two rows of powers */
    return status;
}

/* Stores past the caches take whole vectors. */
EB_INLINE int can_stream(const eb_node *node, const float *y) {
    return tiling_of(node)->stream && (uintptr_t)y % (EB_VL * sizeof(float)) == 0;
}

EB_INLINE eb_status run_norm_rows(const eb_node *node, void *const *bases, int64_t begin, int64_t end,
                             int addend_at, void (*function)(row *)) {
    const float *x = eb_data(eb_input(node, EB_IN_ROWS_X), bases);
    float *y = eb_data(eb_output(node), bases);
    row r = {.n = tiling_of(node)->n, .epsilon = node->n_reals ? epsilon_of(node->reals[0]) : 0};
    r.weight = eb_optional_data(node, EB_IN_NORM_WEIGHT, bases);
    if (addend_at == EB_IN_LAYER_NORM_ADDEND) r.bias = eb_optional_data(node, EB_IN_LAYER_NORM_BIAS, bases);
    const float *addend = eb_optional_data(node, addend_at, bases);
    r.streams = can_stream(node, y);
    int64_t rows = eb_size(eb_output(node)) / r.n, last = eb_min(rows, end * tiling_of(node)->rows);
    eb_loop x_rows = eb_loop_axes(eb_input(node, EB_IN_ROWS_X), 0, (int)tiling_of(node)->first);
    eb_cursor at;
    eb_cursor_seek(&x_rows, &at, begin * tiling_of(node)->rows);
    for (int64_t i = begin * tiling_of(node)->rows; i < last; i++, eb_cursor_advance(&x_rows, &at, 1)) {
        r.x = x + at.offset[0];
        r.y = y + i * r.n;
        if (addend) r.addend = addend + i * r.n;
        function(&r);
    }
    if (r.streams) eb_stream_end();
    return EB_OK;
}

static eb_status run_softmax(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    float *y = eb_data(eb_output(node), bases), *kept = scratch;
    if (!can_stream(node, y)) return run_norm_rows(node, bases, begin, end, NO_ADDEND, softmax_row);
    row r = {.n = tiling_of(node)->n};
    pending_row before = {0};
    int64_t last = eb_min(eb_size(eb_output(node)) / r.n, end * tiling_of(node)->rows);
    eb_loop x_rows = eb_loop_axes(eb_input(node, EB_IN_ROWS_X), 0, (int)tiling_of(node)->first);
    eb_cursor at;
    eb_cursor_seek(&x_rows, &at, begin * tiling_of(node)->rows);
    for (int64_t i = begin * tiling_of(node)->rows; i < last; i++, eb_cursor_advance(&x_rows, &at, 1)) {
        r.x = (const float *)eb_data(eb_input(node, EB_IN_ROWS_X), bases) + at.offset[0];
        r.y = y + i * r.n;
        softmax_past_caches(&r, &before, kept + i % 2 * r.n);
    }
    for (int64_t i = 0; i < r.n && before.y; i += EB_VL) put_pending(&before, i);
    eb_stream_end();
    return EB_OK;
}
const eb_kernel EB_SYMBOL(softmax, vector) = {plan_softmax, run_softmax};

/* addend_at: which input is added to x, or NO_ADDEND. */
#define NORM_KERNEL(op, plan, addend_at)                                                                           \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_norm_rows(n, bases, begin, end, addend_at, op##_row);                                           \
    }                                                                                                              \
    const eb_kernel EB_SYMBOL(op, vector) = {plan, run_##op};
NORM_KERNEL(layer_norm, plan_trailing, EB_IN_LAYER_NORM_ADDEND)
NORM_KERNEL(rms_norm, plan_trailing, EB_IN_RMS_NORM_ADDEND)
NORM_KERNEL(log_softmax, plan_last_axis, NO_ADDEND)

/* --- rows of tables ------------------------------------------------------------------------------------------------ */

/* Inputs: TERMS pairs (values, ids), those of term t at 2 t and 2 t + 1, then weight and bias. With ids the values are a
 * table [V, n] and the ids say which of its rows; without, they are broadcast to the result. */
enum { TERMS = 3, WEIGHT = EB_IN_EMBEDDING_NORM_WEIGHT, BIAS = EB_IN_EMBEDDING_NORM_BIAS };

static eb_status plan_embedding_norm(eb_node *node) {
    const eb_tensor *y = eb_output(node);
    int64_t n = y->shape[y->rank - 1], dense = 1, decodes = 0;
    if (y->dtype != EB_F32 || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    for (int i = 0; i <= BIAS; i++) {
        const eb_tensor *t = eb_input(node, i);
        if (!eb_is_present(node, i)) continue;
        int is_ids = i < WEIGHT && i % 2;
        const int is_table = i < WEIGHT && !is_ids && eb_is_present(node, i + 1);
        if (t->is_packed || (is_ids && t->dtype != EB_I64 && t->dtype != EB_I32)) return EB_NOT_APPLICABLE;
        const eb_table_form form = is_ids ? TABLE_FLOATS : table_form(t);
        if (form != TABLE_FLOATS && (form == TABLE_OTHER || !is_table)) return EB_NOT_APPLICABLE;
        decodes |= form != TABLE_FLOATS;
        if (!is_ids) dense &= n == 1 || t->stride[t->rank - 1] == 1;
    }
    if (!dense) return EB_NEEDS_DENSE;
    edit_tiling(node)->n = n;
    edit_tiling(node)->rows = eb_max(1, TILE_ELEMENTS / eb_max(1, n));
    node->scratch_bytes = decodes ? TERMS * n * 4 : 0;
    node->tiles = n ? eb_ceil_div(eb_size(y) / n, tiling_of(node)->rows) : 0;
    choose_streams(node);
    return EB_OK;
}

/* The walk over rows of the result: for each term its ids, or its own rows. */
static eb_loop loop_terms(const eb_node *node) {
    const eb_tensor *y = eb_output(node);
    eb_loop loop = eb_loop_new(TERMS);
    for (int axis = 0; axis < y->rank - 1; axis++) {
        int64_t strides[TERMS] = {0};
        for (int t = 0; t < TERMS; t++) {
            if (eb_is_present(node, 2 * t + 1))
                strides[t] = eb_broadcast_stride(eb_input(node, 2 * t + 1), y->rank - 1, axis);
            else if (eb_is_present(node, 2 * t))
                strides[t] = eb_broadcast_stride(eb_input(node, 2 * t), y->rank, axis);
        }
        eb_loop_axis(&loop, y->shape[axis], strides);
    }
    return loop;
}

/* The row of term `t` that `offset`, from loop_terms, stands for; NULL where the id is none of the table's. `decoded` has room
 * for a row of each term. */
static const float *find_row(const eb_node *node, void *const *bases, int t, int64_t offset, float *decoded) {
    const eb_tensor *values = eb_input(node, 2 * t), *ids = eb_input(node, 2 * t + 1);
    if (!eb_is_present(node, 2 * t + 1)) return (const float *)eb_data(values, bases) + offset;
    const void *at = eb_data(ids, bases);
    int64_t id = ids->dtype == EB_I64 ? ((const int64_t *)at)[offset] : ((const int32_t *)at)[offset];
    return id < 0 || id >= values->shape[0] ? NULL : read_table_row(node, bases, 2 * t, id, decoded + t * tiling_of(node)->n);
}

static eb_status run_embedding_norm(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    row r = {.n = tiling_of(node)->n, .epsilon = epsilon_of(node->reals[EB_REAL_EMBEDDING_NORM_EPSILON])};
    float *y = eb_data(eb_output(node), bases);
    r.weight = eb_optional_data(node, WEIGHT, bases);
    r.bias = eb_optional_data(node, BIAS, bases);
    r.streams = can_stream(node, y);
    const float **const terms[TERMS] = {&r.x, &r.addend, &r.second};
    eb_loop loop = loop_terms(node);
    eb_cursor at;
    eb_cursor_seek(&loop, &at, begin * tiling_of(node)->rows);
    int64_t last = eb_min(loop.count, end * tiling_of(node)->rows);
    eb_status status = EB_OK;
    for (int64_t i = begin * tiling_of(node)->rows; i < last; i++) {
        for (int t = 0; t < TERMS && eb_is_present(node, 2 * t); t++)
            if (!(*terms[t] = find_row(node, bases, t, at.offset[t], scratch))) status = EB_INDEX_OUT_OF_RANGE;
        if (status != EB_OK) break;
        r.y = y + i * r.n;
        if (node->ints[EB_INT_EMBEDDING_NORM_NORM] == EB_EMBEDDING_NORM_NORM_LAYER_NORM)
            layer_norm_row(&r);
        else
            rms_norm_row(&r);
        eb_cursor_advance(&loop, &at, 1);
    }
    if (r.streams) eb_stream_end();
    return status;
}
const eb_kernel EB_PASTE(f32_anyw_embedding_norm, __, EB_ISA, _, vector, ) = {plan_embedding_norm, run_embedding_norm};
