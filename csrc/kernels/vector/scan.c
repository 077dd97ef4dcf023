/* Along one axis: argmax and argmin of elements of 4 and 8 bytes (the first of equals; NaN wins), cumsum and cumprod (of
 * float32 in double, as the reference has it; of integers of 64 bits, to which programs widen others). As in reduce.c the
 * axis whose elements are neighbours decides: it is the op's own, or another one, along which vectors lie. Input 0 is x of
 * each of these ops. */
#include "../../ops.h"
#include "vec.h"

typedef int32_t vi_unaligned __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));

enum {
    TILE_ELEMENTS = 16384,
    BLOCK = 1024, /* elements of which argmax takes the largest, before it looks where that is */
    COLUMNS = 1024, /* results of the outer form that are made at once: rows are read in pages' worth */
    ROWS = 4        /* of the inner form that are taken at once: the sums of one row wait for each other */
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
/* `columns` results side by side, at x[0] and y[0], or `rows` runs each at its own place. */
typedef void (*scan_piece)(const problem *p, const void *const *x, void *const *y, int rows, int64_t columns);

static eb_status plan(eb_node *node, scan_piece function, int keeps_axis) {
    const eb_tensor *x = eb_input(node, 0);
    if (!function) return EB_NOT_APPLICABLE;
    problem p = describe(node, keeps_axis);
    if (p.size == 0 || p.size > INT32_MAX) return EB_NOT_APPLICABLE;
    if (p.others.count == 0) return EB_OK;
    if (!p.columns && p.x_step != 1 && p.size != 1) return eb_is_dense(x) ? EB_NOT_APPLICABLE : EB_NEEDS_DENSE;
    edit_tiling(node)->pieces = eb_max(p.columns ? 1 : ROWS, TILE_ELEMENTS / (p.size * eb_max(1, eb_min(p.columns, COLUMNS))));
    node->tiles = eb_ceil_div(piece_count(&p), tiling_of(node)->pieces);
    return EB_OK;
}

static eb_status run_scan(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int keeps_axis, scan_piece function) {
    problem p = describe(node, keeps_axis);
    const int64_t x_size = eb_element_size(eb_input(node, 0)->dtype), y_size = eb_element_size(eb_output(node)->dtype);
    const int64_t each = tiling_of(node)->pieces, row = pieces_a_row(&p), last = eb_min(piece_count(&p), end * each);
    const char *x = eb_data(eb_input(node, 0), bases);
    char *y = eb_data(eb_output(node), bases);
    for (int64_t i = begin * each, rows; i < last; i += rows) {
        const int64_t first = p.columns ? i % row * COLUMNS : 0;
        const void *from[ROWS];
        void *to[ROWS];
        eb_cursor at;
        eb_cursor_seek(&p.others, &at, p.columns ? i / row * p.columns + first : i);
        rows = p.columns ? 1 : eb_min(ROWS, last - i);
        for (int64_t r = 0; r < rows; r++) {
            from[r] = x + at.offset[0] * x_size;
            to[r] = y + at.offset[1] * y_size;
            eb_cursor_advance(&p.others, &at, r + 1 < rows);
        }
        function(&p, from, to, (int)rows, eb_min(COLUMNS, p.columns - first));
    }
    return EB_OK;
}

/* A kernel of the functions by the type of x. */
enum { TYPES = EB_BOOL + 1 };
#define SCAN_KERNEL(op, keeps_axis, ...)                                                                                \
    static const scan_piece of_##op[TYPES] = {__VA_ARGS__};                                                        \
    static eb_status plan_##op(eb_node *node) {                                                                    \
        return plan(node, of_##op[eb_input(node, 0)->dtype], keeps_axis);                                          \
    }                                                                                                              \
    static eb_status run_##op(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) { \
        (void)scratch;                                                                                             \
        return run_scan(node, bases, begin, end, keeps_axis, of_##op[eb_input(node, 0)->dtype]);                   \
    }                                                                                                              \
    const eb_kernel EB_PASTE(any_, op, __, EB_ISA, _, vector) = {plan_##op, run_##op};

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

#define ARG_OF_FLOATS(op, sign)                                                                                    \
    static void op##_f32(const problem *p, const void *const *x, void *const *y, int rows, int64_t columns) {      \
        if (columns) arg_of_columns(p, x[0], y[0], columns, sign);                                                 \
        for (int r = 0; r < rows && !columns; r++) *(int64_t *)y[r] = arg_of_run(x[r], p->size, sign);             \
    }

/* Of other types, as plain loops: better(v, top). Of a run the best of each block is found before its place is. */
#define ARG(name, type, better)                                                                                    \
    static int64_t run_##name(const type *x, int64_t n) {                                                          \
        int64_t best = 0;                                                                                          \
        for (int64_t i = 0; i < n; i += BLOCK) {                                                                   \
            const int64_t block_end = eb_min(n, i + BLOCK);                                                        \
            type top = x[i];                                                                                       \
            for (int64_t j = i; j < block_end; j++) top = better(x[j], top) ? x[j] : top;                          \
            if (!better(top, x[best]) && i) continue;                                                              \
            best = i;                                                                                              \
            while (better(top, x[best])) best++;                                                                   \
        }                                                                                                          \
        return best;                                                                                               \
    }                                                                                                              \
    static void columns_##name(const problem *p, const type *restrict x, int64_t *restrict y, int64_t columns) {   \
        type top[COLUMNS];                                                                                         \
        for (int64_t c = 0; c < columns; c++) top[c] = x[c], y[c] = 0;                                             \
        for (int64_t i = 1; i < p->size; i++) {                                                                    \
            const type *restrict row = x + i * p->x_step;                                                          \
            for (int64_t c = 0; c < columns; c++) {                                                                \
                const int is_better = better(row[c], top[c]);                                                      \
                y[c] = is_better ? i : y[c];                                                                       \
                top[c] = is_better ? row[c] : top[c];                                                              \
            }                                                                                                      \
        }                                                                                                          \
    }                                                                                                              \
    static void name(const problem *p, const void *const *x, void *const *y, int rows, int64_t columns) {          \
        if (columns) columns_##name(p, x[0], y[0], columns);                                                       \
        for (int r = 0; r < rows && !columns; r++) *(int64_t *)y[r] = run_##name(x[r], p->size);                   \
    }
#define IS_LARGER(v, top) ((v) > (top))
#define IS_SMALLER(v, top) ((v) < (top))
#define IS_LARGER_FLOAT(v, top) (((v) > (top) || (v) != (v)) && (top) == (top))
#define IS_SMALLER_FLOAT(v, top) (((v) < (top) || (v) != (v)) && (top) == (top))
#define ARG_OF_TYPES(op, sign, better, better_float)                                                               \
    ARG_OF_FLOATS(op, sign)                                                                                        \
    ARG(op##_f64, double, better_float)                                                                            \
    ARG(op##_i64, int64_t, better)                                                                                 \
    ARG(op##_i32, int32_t, better)                                                                                 \
    SCAN_KERNEL(op, node->ints[1] != 0, [EB_F32] = op##_f32, [EB_F64] = op##_f64, [EB_I64] = op##_i64, [EB_I32] = op##_i32)
ARG_OF_TYPES(argmax, 1, IS_LARGER, IS_LARGER_FLOAT)
ARG_OF_TYPES(argmin, -1, IS_SMALLER, IS_SMALLER_FLOAT)

/* --- cumsum, cumprod ----------------------------------------------------------------------------------------------- */

#define RUNNING(name, type, wide, first, step)                                                                     \
    static void name(const problem *p, const void *const *x_, void *const *y_, int rows, int64_t columns) {        \
        const type *const *x = (const type *const *)x_;                                                            \
        type *const *y = (type *const *)y_;                                                                        \
        if (columns) {                                                                                             \
            wide sums[COLUMNS];                                                                                    \
            for (int64_t c = 0; c < columns; c++) sums[c] = first;                                                 \
            for (int64_t i = 0; i < p->size; i++) {                                                                \
                const type *from = x[0] + i * p->x_step;                                                           \
                type *to = y[0] + i * p->y_step;                                                                   \
                EB_INDEPENDENT                                                                                     \
                for (int64_t c = 0; c < columns; c++) to[c] = (type)(sums[c] = step(sums[c], from[c]));            \
            }                                                                                                      \
        } else if (rows == ROWS) {                                                                                 \
            wide sums[ROWS] = {first, first, first, first};                                                        \
            for (int64_t i = 0; i < p->size; i++)                                                                  \
                EB_UNROLL                                                                                          \
                for (int r = 0; r < ROWS; r++)                                                                     \
                    y[r][i * p->y_step] = (type)(sums[r] = step(sums[r], x[r][i * p->x_step]));                    \
        } else {                                                                                                   \
            for (int r = 0; r < rows; r++) {                                                                       \
                wide sum = first;                                                                                  \
                for (int64_t i = 0; i < p->size; i++) y[r][i * p->y_step] = (type)(sum = step(sum, x[r][i * p->x_step])); \
            }                                                                                                      \
        }                                                                                                          \
    }
#define SCAN_ADD(a, v) ((a) + (v))
#define SCAN_MULTIPLY(a, v) ((a) * (v))
#define RUNNING_OF_TYPES(op, first, step)                                                                          \
    RUNNING(op##_f32, float, double, first, step)                                                                  \
    RUNNING(op##_f64, double, double, first, step)                                                                 \
    RUNNING(op##_i64, uint64_t, uint64_t, first, step)                                                             \
    SCAN_KERNEL(op, 1, [EB_F32] = op##_f32, [EB_F64] = op##_f64, [EB_I64] = op##_i64)
RUNNING_OF_TYPES(cumsum, 0, SCAN_ADD)
RUNNING_OF_TYPES(cumprod, 1, SCAN_MULTIPLY)
