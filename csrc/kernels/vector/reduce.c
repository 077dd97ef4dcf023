/* Reductions over any set of axes: sum, mean, prod, var, amax and amin of floats, any and all of bools.
 *
 * The axis whose elements are neighbours decides the form:
 *   inner   it is reduced: runs of it are taken in by several vectors, whose lanes meet at the end
 *   outer   it is kept: up to COLUMNS results are held in a buffer, and rows are taken in one after another
 *
 * sum, mean, prod and var accumulate in double, as the reference does: every result is the exact one rounded to float,
 * but for the few ulp of a double. amax and amin are exact. NaN wins.
 */
#include "../../ops.h"
#include "vec.h"

typedef double vd_unaligned __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));
typedef float vh_unaligned __attribute__((vector_size(EB_VL * 2), aligned(1), may_alias));
typedef uint8_t vb __attribute__((vector_size(EB_VL * 4)));
typedef uint8_t vb_unaligned __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));

enum {
    TILE_ELEMENTS = 16384,
    COLUMNS = 1024, /* results of the outer form that are held at once: their sums stay in L1, and a row is read by pages */
    SUMS = 4       /* vectors of the inner form, so that additions do not wait for each other */
};

typedef struct {
    eb_loop kept, reduced; /* operands x, y; and x */
    int64_t columns;       /* outer form: results that are neighbours; inner form: 0 */
    double divisor;
} problem;

/* All reductions have x as input 0, and the ints (axes, keepdims) in this order. */
static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    problem p = {.kept = eb_loop_new(2), .reduced = eb_loop_new(1)};
    int out = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        if (node->ints[0] >> axis & 1) {
            eb_loop_axis(&p.reduced, x->shape[axis], &x->stride[axis]);
            out += node->ints[1] != 0;
        } else {
            int64_t strides[2] = {x->stride[axis], y->stride[out++]};
            eb_loop_axis(&p.kept, x->shape[axis], strides);
        }
    }
    int last = p.kept.rank - 1;
    if (p.kept.stride[0][last] == 1 && p.kept.stride[1][last] == 1) p.columns = p.kept.shape[last];
    p.divisor = node->n_reals ? fmax(0, (double)p.reduced.count - node->reals[0]) : (double)p.reduced.count;
    return p;
}

static int64_t pieces_a_row(const problem *p) { return p->columns ? eb_ceil_div(p->columns, COLUMNS) : 1; }
static int64_t piece_count(const problem *p) {
    return p->columns ? p->kept.count / p->columns * pieces_a_row(p) : p->kept.count;
}

typedef struct {
    int64_t pieces; /* pieces a tile */
} tiling;
EB_NODE_PLAN(tiling)
static eb_status plan(eb_node *node, int32_t x_dtype, int32_t y_dtype) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    if (x->dtype != x_dtype || y->dtype != y_dtype) return EB_NOT_APPLICABLE;
    problem p = describe(node);
    if (p.reduced.count == 0) return EB_NOT_APPLICABLE;
    if (p.kept.count == 0) return EB_OK;
    int last = p.reduced.rank - 1;
    if (!p.columns && p.reduced.stride[0][last] != 1 && p.reduced.shape[last] != 1)
        return eb_is_dense(x) ? EB_NOT_APPLICABLE : EB_NEEDS_DENSE;
    edit_tiling(node)->pieces = eb_max(1, TILE_ELEMENTS / (p.reduced.count * eb_max(1, eb_min(p.columns, COLUMNS))));
    node->tiles = eb_ceil_div(piece_count(&p), tiling_of(node)->pieces);
    return EB_OK;
}
static eb_status plan_floats(eb_node *node) { return plan(node, EB_F32, EB_F32); }
static eb_status plan_bools(eb_node *node) { return plan(node, EB_BOOL, EB_BOOL); }

/* One piece: a result (inner form, columns 0), or up to COLUMNS of them. */
typedef void (*reduce_piece)(const problem *p, const void *x, void *y, int64_t columns);

static eb_status run_reduction(const eb_node *node, void *const *bases, int64_t begin, int64_t end, reduce_piece function) {
    problem p = describe(node);
    int64_t size = eb_output(node)->dtype == EB_BOOL ? 1 : 4, each = tiling_of(node)->pieces, row = pieces_a_row(&p);
    const char *x = eb_data(eb_input(node, 0), bases);
    char *y = eb_data(eb_output(node), bases);
    for (int64_t i = begin * each; i < eb_min(piece_count(&p), end * each); i++) {
        int64_t first = i % row * COLUMNS;
        eb_cursor at;
        eb_cursor_seek(&p.kept, &at, p.columns ? i / row * p.columns + first : i);
        function(&p, x + at.offset[0] * size, y + at.offset[1] * size, p.columns ? eb_min(COLUMNS, p.columns - first) : 0);
    }
    return EB_OK;
}

/* --- both forms of one step ---------------------------------------------------------------------------------------- */

EB_INLINE vd vd_load(const float *x) { return __builtin_convertvector(*(const vh_unaligned *)x, vd); }
EB_INLINE vd vd_read(const double *x) { return *(const vd_unaligned *)x; }
EB_INLINE void vd_write(double *x, vd v) { *(vd_unaligned *)x = v; }
EB_INLINE vf vf_read(const float *x) { return vf_load(x); }
EB_INLINE void vf_write(float *x, vf v) { vf_store(x, v); }
EB_INLINE vb vb_set(uint8_t v) { return v - (vb){0}; }
EB_INLINE vb vb_load(const uint8_t *x) { return *(const vb_unaligned *)x; }
EB_INLINE vb vb_read(const uint8_t *x) { return vb_load(x); }
EB_INLINE void vb_write(uint8_t *x, vb v) { *(vb_unaligned *)x = v; }

/* STEP(name, input, type, vector, wide, one): a step takes v into the sum a; c is what it compares with (var: the mean,
 * else none). `wide` is the step of vectors, `one` that of numbers. Makes inner_<name>: all of a result's elements, and
 * outer_<name>: all rows into sums[columns]. */
#define STEP(name, input, type, vector, wide, one)                                                                     \
    static type run_##name(const input *x, int64_t n, type a, type centre) {                                           \
        enum { WIDTH = sizeof(vector) / sizeof(type) };                                                                \
        int64_t i = 0;                                                                                                 \
        if (n >= SUMS * WIDTH) {                                                                                       \
            vector sums[SUMS], c = vector##_set(centre);                                                               \
            (void)c;                                                                                                   \
            EB_UNROLL                                                                                                  \
            for (int s = 0; s < SUMS; s++) sums[s] = vector##_set(name##_start);                                       \
            for (; i + SUMS * WIDTH <= n; i += SUMS * WIDTH)                                                           \
                EB_UNROLL                                                                                              \
                for (int s = 0; s < SUMS; s++) {                                                                       \
                    vector v = vector##_load(x + i + s * WIDTH);                                                       \
                    sums[s] = wide(sums[s], v, c);                                                                     \
                }                                                                                                      \
            type lanes[SUMS * WIDTH];                                                                                  \
            memcpy(lanes, sums, sizeof lanes);                                                                         \
            for (int s = 0; s < SUMS * WIDTH; s++) a = name##_join(a, lanes[s]);                                       \
        }                                                                                                              \
        for (; i < n; i++) a = one(a, (type)x[i], centre);                                                             \
        return a;                                                                                                      \
    }                                                                                                                  \
    static type inner_##name(const problem *p, const input *x, type centre) {                                          \
        type a = name##_start;                                                                                         \
        eb_cursor at;                                                                                                  \
        eb_cursor_seek(&p->reduced, &at, 0);                                                                           \
        for (int64_t done = 0; done < p->reduced.count;) {                                                             \
            int64_t n = eb_cursor_run(&p->reduced, &at, p->reduced.count);                                             \
            a = run_##name(x + at.offset[0], n, a, centre);                                                            \
            eb_cursor_advance(&p->reduced, &at, n);                                                                    \
            done += n;                                                                                                 \
        }                                                                                                              \
        return a;                                                                                                      \
    }                                                                                                                  \
    static void row_##name(const input *x, type *sums, const type *centre, int64_t n) {                                \
        enum { WIDTH = sizeof(vector) / sizeof(type) };                                                                \
        int64_t i = 0;                                                                                                 \
        for (; i + WIDTH <= n; i += WIDTH) {                                                                           \
            vector v = vector##_load(x + i), c = centre ? vector##_read(centre + i) : vector##_set(0);                 \
            (void)c;                                                                                                   \
            vector##_write(sums + i, wide(vector##_read(sums + i), v, c));                                             \
        }                                                                                                              \
        for (; i < n; i++) sums[i] = one(sums[i], (type)x[i], centre ? centre[i] : 0);                                 \
    }                                                                                                                  \
    static void outer_##name(const problem *p, const input *x, type *sums, const type *centre, int64_t n) {            \
        for (int64_t i = 0; i < n; i++) sums[i] = name##_start;                                                        \
        eb_cursor at;                                                                                                  \
        eb_cursor_seek(&p->reduced, &at, 0);                                                                           \
        for (int64_t done = 0; done < p->reduced.count; done++) {                                                      \
            row_##name(x + at.offset[0], sums, centre, n);                                                             \
            eb_cursor_advance(&p->reduced, &at, 1);                                                                    \
        }                                                                                                              \
    }

#define add_step(a, v, c) ((a) + (v))
#define multiply_step(a, v, c) ((a) * (v))
#define square_step(a, v, c) ((a) + ((v) - (c)) * ((v) - (c)))
#define add_join(a, b) ((a) + (b))
static const double add_start = 0, multiply_start = 1, square_start = 0;
#define multiply_join(a, b) ((a) * (b))
#define square_join(a, b) ((a) + (b))
STEP(add, float, double, vd, add_step, add_step)
STEP(multiply, float, double, vd, multiply_step, multiply_step)
STEP(square, float, double, vd, square_step, square_step)

#define larger_wide(a, v, c) vf_maximum(a, v)
#define smaller_wide(a, v, c) vf_minimum(a, v)
#define larger_join(a, v) (isnan(a) || (a) > (v) ? (a) : (v))
#define smaller_join(a, v) (isnan(a) || (a) < (v) ? (a) : (v))
#define larger_one(a, v, c) larger_join(a, v)
#define smaller_one(a, v, c) smaller_join(a, v)
static const float larger_start = -INFINITY, smaller_start = INFINITY;
STEP(larger, float, float, vf, larger_wide, larger_one)
STEP(smaller, float, float, vf, smaller_wide, smaller_one)

#define or_step(a, v, c) ((a) | (v))
#define and_wide(a, v, c) ((a) & (vb)((v) != 0))
#define and_one(a, v, c) ((v) ? (a) : 0)
#define or_join(a, b) ((a) | (b))
#define and_join(a, b) ((a) & (b))
static const uint8_t or_start = 0, and_start = 0xff;
STEP(or, uint8_t, uint8_t, vb, or_step, or_step)
STEP(and, uint8_t, uint8_t, vb, and_wide, and_one)

/* --- kernels ------------------------------------------------------------------------------------------------------- */

/* `finish` makes the result of the sum a. */
#define REDUCTION(op, input, output, type, step, finish)                                                               \
    static void piece_##op(const problem *p, const void *x, void *y, int64_t columns) {                                \
        type sums[COLUMNS], *result = sums;                                                                            \
        if (columns)                                                                                                   \
            outer_##step(p, (const input *)x, sums, NULL, columns);                                                    \
        else                                                                                                           \
            *result = inner_##step(p, (const input *)x, 0);                                                            \
        for (int64_t i = 0; i < eb_max(1, columns); i++) {                                                             \
            type a = result[i];                                                                                        \
            ((output *)y)[i] = (output)(finish);                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    REDUCTION_RUN(op)
#define REDUCTION_RUN(op)                                                                                              \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {       \
        (void)scratch;                                                                                                 \
        return run_reduction(n, bases, begin, end, piece_##op);                                                        \
    }
#define REGISTER(dtype, op, plan)                                                                                      \
    const eb_kernel EB_PASTE(dtype##_, op, __, EB_ISA, _, vector) = {plan, run_##op};

REDUCTION(sum, float, float, double, add, a)
REDUCTION(mean, float, float, double, add, a / p->divisor)
REDUCTION(prod, float, float, double, multiply, a)
REDUCTION(amax, float, float, float, larger, a)
REDUCTION(amin, float, float, float, smaller, a)
REDUCTION(any, uint8_t, uint8_t, uint8_t, or, a != 0)
REDUCTION(all, uint8_t, uint8_t, uint8_t, and, a != 0)

/* Two passes: the mean, then the squares of what differs from it. */
static void piece_var(const problem *p, const void *x, void *y, int64_t columns) {
    double means[COLUMNS], squares[COLUMNS], count = (double)p->reduced.count;
    if (!columns) {
        double square = inner_square(p, x, inner_add(p, x, 0) / count);
        *(float *)y = (float)(square / p->divisor);
        return;
    }
    outer_add(p, x, means, NULL, columns);
    for (int64_t i = 0; i < columns; i++) means[i] /= count;
    outer_square(p, x, squares, means, columns);
    for (int64_t i = 0; i < columns; i++) ((float *)y)[i] = (float)(squares[i] / p->divisor);
}
REDUCTION_RUN(var)

REGISTER(f32, sum, plan_floats)
REGISTER(f32, mean, plan_floats)
REGISTER(f32, prod, plan_floats)
REGISTER(f32, var, plan_floats)
REGISTER(f32, amax, plan_floats)
REGISTER(f32, amin, plan_floats)
REGISTER(bool, any, plan_bools)
REGISTER(bool, all, plan_bools)
