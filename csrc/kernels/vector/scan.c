/* Along one axis: argmax and argmin of floats (the first of equals; NaN wins), cumsum of floats (in double, as the
 * reference has it). As in reduce.c the axis whose elements are neighbours decides: it is the op's own, or another one,
 * along which vectors lie. Input 0 is x of each of these ops. */
#include "../../ops.h"
#include "vec.h"

typedef int32_t vi_unaligned __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));

enum {
    TILE_ELEMENTS = 16384,
    BLOCK = 1024, /* elements of which argmax takes the largest, before it looks where that is */
    COLUMNS = 1024 /* results of the outer form that are made at once: rows are read in pages' worth */
};

typedef struct {
    int64_t size, x_step, y_step; /* the op's axis */
    eb_loop others;               /* operands x, y */
    int64_t columns;              /* outer form: neighbours among the others; inner form: 0 */
} problem;

static problem describe(const eb_node *node, int keeps_axis) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    problem p = {.size = 1, .x_step = 1, .y_step = 1, .others = eb_loop_new(2)};
    int out = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        if (axis == node->ints[0]) {
            p.size = x->shape[axis];
            p.x_step = x->stride[axis];
            if (keeps_axis) p.y_step = y->stride[out];
            out += keeps_axis;
        } else {
            int64_t strides[2] = {x->stride[axis], y->stride[out++]};
            eb_loop_axis(&p.others, x->shape[axis], strides);
        }
    }
    int last = p.others.rank - 1;
    if (p.others.stride[0][last] == 1 && p.others.stride[1][last] == 1) p.columns = p.others.shape[last];
    return p;
}

static int64_t pieces_a_row(const problem *p) { return p->columns ? eb_ceil_div(p->columns, COLUMNS) : 1; }
static int64_t piece_count(const problem *p) {
    return p->columns ? p->others.count / p->columns * pieces_a_row(p) : p->others.count;
}

typedef struct {
    int64_t pieces; /* pieces a tile */
} tiling;
EB_NODE_PLAN(tiling)
static eb_status plan(eb_node *node, int32_t y_dtype, int keeps_axis) {
    const eb_tensor *x = eb_input(node, 0);
    if (x->dtype != EB_F32 || eb_output(node)->dtype != y_dtype) return EB_NOT_APPLICABLE;
    problem p = describe(node, keeps_axis);
    if (p.size == 0 || p.size > INT32_MAX) return EB_NOT_APPLICABLE;
    if (p.others.count == 0) return EB_OK;
    if (!p.columns && p.x_step != 1 && p.size != 1) return eb_is_dense(x) ? EB_NOT_APPLICABLE : EB_NEEDS_DENSE;
    edit_tiling(node)->pieces = eb_max(1, TILE_ELEMENTS / (p.size * eb_max(1, eb_min(p.columns, COLUMNS))));
    node->tiles = eb_ceil_div(piece_count(&p), tiling_of(node)->pieces);
    return EB_OK;
}

typedef void (*scan_piece)(const problem *p, const float *x, void *y, int64_t columns);

EB_INLINE eb_status run_scan(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int keeps_axis,
                               scan_piece function) {
    problem p = describe(node, keeps_axis);
    int64_t y_size = eb_output(node)->dtype == EB_I64 ? 8 : 4, each = tiling_of(node)->pieces, row = pieces_a_row(&p);
    const float *x = eb_data(eb_input(node, 0), bases);
    char *y = eb_data(eb_output(node), bases);
    for (int64_t i = begin * each; i < eb_min(piece_count(&p), end * each); i++) {
        int64_t first = i % row * COLUMNS;
        eb_cursor at;
        eb_cursor_seek(&p.others, &at, p.columns ? i / row * p.columns + first : i);
        function(&p, x + at.offset[0], y + at.offset[1] * y_size, p.columns ? eb_min(COLUMNS, p.columns - first) : 0);
    }
    return EB_OK;
}

/* --- argmax, argmin ------------------------------------------------------------------------------------------------ */

EB_INLINE vf further(vf a, vf v, const int sign) { return sign > 0 ? vf_maximum(a, v) : vf_minimum(a, v); }
EB_INLINE int beats(float v, float top, const int sign) {
    return isnan(v) ? !isnan(top) : sign > 0 ? v > top : v < top;
}

/* The largest (smallest) of a block, NaN where there is one. */
EB_INLINE float block_top(const float *x, int64_t n, const int sign) {
    vf tops[4];
    EB_UNROLL
    for (int s = 0; s < 4; s++) tops[s] = vf_set(x[0]);
    int64_t i = 0;
    for (; i + 4 * EB_VL <= n; i += 4 * EB_VL)
        EB_UNROLL
        for (int s = 0; s < 4; s++) tops[s] = further(tops[s], vf_load(x + i + s * EB_VL), sign);
    float lanes[EB_VL], top = x[0];
    vf all = further(further(tops[0], tops[1], sign), further(tops[2], tops[3], sign), sign);
    memcpy(lanes, &all, sizeof lanes);
    for (int l = 0; l < EB_VL; l++)
        if (beats(lanes[l], top, sign)) top = lanes[l];
    for (; i < n; i++)
        if (beats(x[i], top, sign)) top = x[i];
    return top;
}

/* Where a block has its first `top`, which it has. */
static int64_t find(const float *x, int64_t n, float top) {
    int is_nan = isnan(top);
    vi at, first = vi_set(INT32_MAX);
    for (int l = 0; l < EB_VL; l++) at[l] = l;
    int64_t i = 0;
    for (; i + EB_VL <= n; i += EB_VL, at += EB_VL) {
        vf v = vf_load(x + i);
        vi found = is_nan ? v != v : v == top;
        first = vi_select(found & (at < first), at, first);
    }
    int32_t least = INT32_MAX;
    for (int l = 0; l < EB_VL; l++) least = first[l] < least ? first[l] : least;
    if (least != INT32_MAX) return least;
    while (is_nan ? !isnan(x[i]) : x[i] != top) i++;
    return i;
}

/* One run: a block is searched only if it holds something better than all before it, which is seldom. */
EB_INLINE int64_t arg_of_run(const float *x, int64_t n, const int sign) {
    int64_t best = 0;
    float top = x[0];
    for (int64_t i = 0; i < n && !isnan(top); i += BLOCK) {
        float here = block_top(x + i, eb_min(BLOCK, n - i), sign);
        if (!beats(here, top, sign)) continue;
        top = here;
        best = i + find(x + i, eb_min(BLOCK, n - i), top);
    }
    return best;
}

/* `columns` runs side by side: row after row is compared with the best so far. */
EB_INLINE void arg_of_columns(const problem *p, const float *x, int64_t *y, int64_t columns, const int sign) {
    float top[COLUMNS];
    int32_t best[COLUMNS] = {0};
    memcpy(top, x, (size_t)columns * 4);
    for (int64_t i = 1; i < p->size; i++) {
        const float *row = x + i * p->x_step;
        int64_t c = 0;
        for (; c + EB_VL <= columns; c += EB_VL) {
            vf v = vf_load(row + c), t = vf_load(top + c);
            vi at = *(const vi_unaligned *)(best + c);
            vi better = ((sign > 0 ? v > t : v < t) | (v != v)) & (t == t);
            vf_store(top + c, vf_select(better, v, t));
            *(vi_unaligned *)(best + c) = vi_select(better, vi_set((int32_t)i), at);
        }
        for (; c < columns; c++)
            if (beats(row[c], top[c], sign)) top[c] = row[c], best[c] = (int32_t)i;
    }
    for (int64_t c = 0; c < columns; c++) y[c] = best[c];
}

#define ARG(op, sign)                                                                                              \
    static void piece_##op(const problem *p, const float *x, void *y, int64_t columns) {                           \
        if (columns)                                                                                               \
            arg_of_columns(p, x, y, columns, sign);                                                                \
        else                                                                                                       \
            *(int64_t *)y = arg_of_run(x, p->size, sign);                                                          \
    }                                                                                                              \
    static eb_status plan_##op(eb_node *node) { return plan(node, EB_I64, node->ints[1] != 0); }                   \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_scan(n, bases, begin, end, n->ints[1] != 0, piece_##op);                                        \
    }                                                                                                              \
    const eb_kernel EB_SYMBOL(op, vector) = {plan_##op, run_##op};
ARG(argmax, 1)
ARG(argmin, -1)

/* --- cumsum -------------------------------------------------------------------------------------------------------- */

static void piece_cumsum(const problem *p, const float *x, void *y, int64_t columns) {
    double sums[COLUMNS] = {0}, sum = 0;
    float *to = y;
    if (!columns)
        for (int64_t i = 0; i < p->size; i++) to[i * p->y_step] = (float)(sum += x[i * p->x_step]);
    else
        for (int64_t i = 0; i < p->size; i++)
            for (int64_t c = 0; c < columns; c++) to[i * p->y_step + c] = (float)(sums[c] += x[i * p->x_step + c]);
}
static eb_status plan_cumsum(eb_node *node) { return plan(node, EB_F32, 1); }
static eb_status run_cumsum(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_scan(n, bases, begin, end, 1, piece_cumsum);
}
const eb_kernel EB_SYMBOL(cumsum, vector) = {plan_cumsum, run_cumsum};
