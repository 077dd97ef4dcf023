/* Reductions over any set of axes: sum, mean, prod, var, amax, amin, any, all. Left to the reference are products and
 * variances of floats of 16 bits, and sums and products of integers of fewer than 64 bits, which programs widen.
 *
 * Where elements are neighbours decides the form:
 *   inner   along a reduced axis: runs of it are folded into one number
 *   outer   along a kept axis: up to COLUMNS results are held in a buffer, into which rows are folded
 *   tiles   along neither, or along a reduced axis too short for vectors: rows are collected before they are folded
 *
 * float32 is summed in double, as by the reference: every result is the exact one rounded, but for the few ulp of a
 * double. Floats of 16 bits are summed in float32 by blocks, with at most CHAIN + SUMS + 1 additions after each other,
 * and the sums of blocks in double: before the result is rounded to 11 or 8 bits, its error is below 2^-19 of the sum of
 * magnitudes. Integers wrap around. Extremes are exact; NaN wins.
 */
#include "../../ops.h"
#include "elementwise.h"
#include "floats16.h"

enum {
    TILE_ELEMENTS = 16384,
    COLUMNS = 1024, /* results that are held at once: their sums stay in L1, and a row is read by pages */
    SUMS = 4,       /* vectors of a run of floats, so that additions do not wait for each other */
    ROWS = 4,       /* that are folded at once: a sum is read and written once for all of them */
    CHAIN = 16,     /* of floats of 16 bits: additions in float32 after each other */
    CHAIN_ROWS = 8, /* and the rows of a block: more would share a set of the cache */
    SHORT_RUN = 16, /* elements: shorter runs are collected, */
    FEWEST_RUNS = 8 /* if there are so many of them */
};

/* Folds of elements into the numbers at `to`: double for sums and products of floats, float for extremes of 16 bits, a byte
 * for tests, else of the elements' type. `centre` is what var compares with, a number for each of `to`. */
typedef struct {
    void (*run)(const void *x, int64_t n, void *to, const double *centre);
    void (*rows)(const void *x, int64_t step, int64_t rows, int64_t n, void *to, const double *centre);
    int64_t first, size; /* the bits of the first number, and its bytes */
} fold;

typedef struct {
    eb_loop kept, reduced; /* operands x, y; and x */
    int64_t columns;       /* results that are neighbours in the outer form and in that of tiles; inner form: 0 */
    int64_t column_step;   /* in x */
    int64_t size, y_size;  /* of an element */
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
    const int last = p.kept.rank - 1, run = p.reduced.rank - 1;
    const int is_run = p.reduced.stride[0][run] == 1 || p.reduced.shape[run] == 1;
    const int is_short = p.reduced.shape[run] < SHORT_RUN && p.kept.shape[last] >= FEWEST_RUNS;
    p.column_step = p.kept.stride[0][last];
    if (p.kept.stride[1][last] == 1 && (p.column_step == 1 || !is_run || is_short)) p.columns = p.kept.shape[last];
    p.size = eb_element_size(x->dtype);
    p.y_size = eb_element_size(y->dtype);
    p.divisor = node->n_reals ? fmax(0, (double)p.reduced.count - node->reals[0]) : (double)p.reduced.count;
    return p;
}

static int64_t pieces_a_row(const problem *p) { return p->columns ? eb_ceil_div(p->columns, COLUMNS) : 1; }
static int64_t piece_count(const problem *p) {
    return p->columns ? p->kept.count / p->columns * pieces_a_row(p) : p->kept.count;
}

typedef struct {
    int64_t pieces; /* a tile; a piece is a result (inner form), or up to COLUMNS of them */
} tiling;
EB_NODE_PLAN(tiling)
static eb_status plan_fold(eb_node *node, const fold *f) {
    const eb_tensor *x = eb_input(node, 0);
    if (!f->run) return EB_NOT_APPLICABLE;
    problem p = describe(node);
    if (p.reduced.count == 0) return EB_NOT_APPLICABLE;
    if (p.kept.count == 0) return EB_OK;
    const int run = p.reduced.rank - 1;
    if (!p.columns && p.reduced.stride[0][run] != 1 && p.reduced.shape[run] != 1)
        return eb_is_dense(x) ? EB_NOT_APPLICABLE : EB_NEEDS_DENSE;
    edit_tiling(node)->pieces = eb_max(1, TILE_ELEMENTS / (p.reduced.count * eb_max(1, eb_min(p.columns, COLUMNS))));
    node->tiles = eb_ceil_div(piece_count(&p), tiling_of(node)->pieces);
    return EB_OK;
}

/* `columns` elements, `step` apart. */
static void collect(void *to, const void *x, int64_t columns, int64_t step, int64_t size) {
    switch (size) {
#define COLLECT(bytes, type)                                                                                           \
    case bytes:                                                                                                        \
        for (int64_t c = 0; c < columns; c++) ((type *)to)[c] = ((const type *)x)[c * step];                           \
        break;
        COLLECT(1, uint8_t)
        COLLECT(2, uint16_t)
        COLLECT(4, uint32_t)
        COLLECT(8, uint64_t)
    }
}

/* All that is reduced to one result. */
static void fold_inner(const problem *p, const fold *f, const char *x, void *to, const double *centre) {
    memcpy(to, &f->first, 8);
    if (p->reduced.rank == 1) {
        f->run(x, p->reduced.count, to, centre);
        return;
    }
    eb_cursor at;
    eb_cursor_seek(&p->reduced, &at, 0);
    for (int64_t done = 0, n; done < p->reduced.count; done += n) {
        n = eb_cursor_run(&p->reduced, &at, p->reduced.count);
        f->run(x + at.offset[0] * p->size, n, to, centre);
        eb_cursor_advance(&p->reduced, &at, n);
    }
}

/* All that is reduced to `columns` results. */
static void fold_columns(const problem *p, const fold *f, const char *x, void *to, const double *centre, int64_t columns) {
    _Alignas(64) char collected[ROWS * COLUMNS * 8];
    collect(to, &f->first, columns, 0, f->size);
    eb_cursor at;
    eb_cursor_seek(&p->reduced, &at, 0);
    const int64_t step = p->reduced.stride[0][p->reduced.rank - 1];
    for (int64_t done = 0, rows; done < p->reduced.count; done += rows) {
        rows = eb_cursor_run(&p->reduced, &at, p->reduced.count);
        const char *first = x + at.offset[0] * p->size;
        if (p->column_step == 1) {
            f->rows(first, step, rows, columns, to, centre);
        } else {
            rows = eb_min(rows, ROWS);
            for (int64_t r = 0; r < rows; r++)
                collect(collected + r * columns * p->size, first + r * step * p->size, columns, p->column_step, p->size);
            f->rows(collected, columns, rows, columns, to, centre);
        }
        eb_cursor_advance(&p->reduced, &at, rows);
    }
}

static void fold_piece(const problem *p, const fold *f, const char *x, void *to, const double *centre, int64_t columns) {
    if (columns)
        fold_columns(p, f, x, to, centre, columns);
    else
        fold_inner(p, f, x, to, centre);
}

/* With `squares`, of var: the fold is that of the sums, whose means are the centres of the squares. */
static eb_status run_fold(const eb_node *node, void *const *bases, int64_t begin, int64_t end, const fold *f,
                          const fold *squares, int divides) {
    problem p = describe(node);
    const int64_t each = tiling_of(node)->pieces, row = pieces_a_row(&p);
    const char *x = eb_data(eb_input(node, 0), bases);
    char *y = eb_data(eb_output(node), bases);
    double folded[COLUMNS], centre[COLUMNS];
    const int64_t last = eb_min(piece_count(&p), end * each);
    eb_cursor at;
    if (!p.columns) eb_cursor_seek(&p.kept, &at, begin * each);
    for (int64_t i = begin * each; i < last; i++) {
        const int64_t first = p.columns ? i % row * COLUMNS : 0, columns = eb_min(COLUMNS, p.columns - first);
        const int64_t results = eb_max(1, columns);
        if (p.columns) eb_cursor_seek(&p.kept, &at, i / row * p.columns + first);
        const char *from = x + at.offset[0] * p.size;
        fold_piece(&p, f, from, folded, NULL, columns);
        if (squares) {
            for (int64_t c = 0; c < results; c++) centre[c] = folded[c] / (double)p.reduced.count;
            fold_piece(&p, squares, from, folded, centre, columns);
        }
        char *to = y + at.offset[1] * p.y_size;
        if (divides)
            for (int64_t c = 0; c < results; c++) folded[c] /= p.divisor;
        if (f->size == p.y_size)
            memcpy(to, folded, (size_t)(results * p.y_size));
        else if (f->size == 8 && eb_output(node)->dtype == EB_F16)
            for (int64_t c = 0; c < results; c++) ((uint16_t *)to)[c] = (uint16_t)half_of_double(folded[c]);
        else
            eb_casts[f->size == 8 ? EB_F64 : EB_F32][eb_output(node)->dtype](to, folded, NULL, NULL, results);
        if (!p.columns) eb_cursor_advance(&p.kept, &at, 1);
    }
    return EB_OK;
}

/* --- folds --------------------------------------------------------------------------------------------------------- */

/* step(a, v, c): takes v into a, where c is the centre. Of integers, whose order of folding is free: the compiler makes
 * vectors of a run and of columns. */
#define FOLD(name, from, type, step)                                                                                   \
    static void rows_##name(const void *x_, int64_t stride, int64_t rows, int64_t n, void *to_, const double *centre) { \
        (void)centre;                                                                                                  \
        type *restrict to = to_;                                                                                       \
        const from *restrict x = x_;                                                                                   \
        int64_t r = 0;                                                                                                 \
        for (; r + 2 <= rows; r += 2, x += 2 * stride)                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const type a = step(to[i], x[i], 0);                                                                   \
                to[i] = step(a, x[i + stride], 0);                                                                     \
            }                                                                                                          \
        for (int64_t i = 0; r < rows && i < n; i++) to[i] = step(to[i], x[i], 0);                                      \
    }                                                                                                                  \
    static void run_##name(const void *x, int64_t n, void *to, const double *centre) {                                 \
        (void)centre;                                                                                                  \
        type a = *(type *)to;                                                                                          \
        for (int64_t i = 0; i < n; i++) a = step(a, ((const from *)x)[i], 0);                                          \
        *(type *)to = a;                                                                                               \
    }

typedef double vd_unaligned __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));
#define DOUBLES(x) (*(vd_unaligned *)(x))
#define FLOATS(x) (*(vf_unaligned *)(x))
#define LOAD_DOUBLES(x) (*(const vd_unaligned *)(x))

/* Of floats. vector: of the numbers that are folded, `at` some in memory; load: elements as such a vector, value: as one
 * number; wide: the step of vectors; join: of two folded numbers, wide_join: of vectors of them. */
#define FOLD_FLOATS(name, from, value, type, vector, at, load, first, wide, wide_join, step, join)                     \
    EB_INLINE void fold_rows_##name(const from *x, int64_t stride, const int64_t rows, int64_t n, type *to,            \
                                    const double *centre) {                                                            \
        enum { WIDTH = sizeof(vector) / sizeof(type) };                                                                \
        int64_t i = 0;                                                                                                 \
        (void)centre;                                                                                                  \
        for (; i + WIDTH <= n; i += WIDTH) {                                                                           \
            vector a = at(to + i);                                                                                     \
            EB_UNROLL                                                                                                  \
            for (int64_t r = 0; r < rows; r++) a = wide(a, load(x + i + r * stride), LOAD_DOUBLES(centre + i));        \
            at(to + i) = a;                                                                                            \
        }                                                                                                              \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t l = i; l < i + WIDTH && l < n; l++) to[l] = step(to[l], value(x[l + r * stride]), centre[l]); \
    }                                                                                                                  \
    static void rows_##name(const void *x_, int64_t stride, int64_t rows, int64_t n, void *to, const double *centre) { \
        const from *x = x_;                                                                                            \
        int64_t r = 0;                                                                                                 \
        for (; r + ROWS <= rows; r += ROWS) fold_rows_##name(x + r * stride, stride, ROWS, n, to, centre);             \
        for (; r < rows; r++) fold_rows_##name(x + r * stride, stride, 1, n, to, centre);                              \
    }                                                                                                                  \
    static void run_##name(const void *x_, int64_t n, void *to, const double *centre) {                                \
        enum { WIDTH = sizeof(vector) / sizeof(type) };                                                                \
        const from *x = x_;                                                                                            \
        const type c = centre ? (type)*centre : 0;                                                                     \
        type a = *(type *)to;                                                                                          \
        int64_t i = 0;                                                                                                 \
        (void)c;                                                                                                       \
        if (n >= WIDTH) {                                                                                              \
            vector sums[SUMS];                                                                                         \
            EB_UNROLL                                                                                                  \
            for (int s = 0; s < SUMS; s++) sums[s] = (type)(first) - (vector){0};                                      \
            for (; i + SUMS * WIDTH <= n; i += SUMS * WIDTH)                                                           \
                EB_UNROLL                                                                                              \
                for (int s = 0; s < SUMS; s++) sums[s] = wide(sums[s], load(x + i + s * WIDTH), c);                    \
            for (; i + WIDTH <= n; i += WIDTH) sums[0] = wide(sums[0], load(x + i), c);                                \
            sums[0] = wide_join(sums[0], sums[1]);                                                                     \
            sums[2] = wide_join(sums[2], sums[3]);                                                                     \
            sums[0] = wide_join(sums[0], sums[2]);                                                                     \
            type lanes[WIDTH];                                                                                         \
            memcpy(lanes, &sums[0], sizeof lanes);                                                                     \
            EB_UNROLL                                                                                                  \
            for (int l = 0; l < WIDTH; l++) a = join(a, lanes[l]);                                                     \
        }                                                                                                              \
        for (; i < n; i++) a = step(a, value(x[i]), c);                                                                \
        *(type *)to = a;                                                                                               \
    }

/* Sums of floats of 16 bits. */
#define FOLD_NARROW_SUMS(name, value, load)                                                                            \
    EB_INLINE void fold_rows_##name(const uint16_t *x, int64_t stride, const int64_t rows, int64_t n, double *to) {    \
        int64_t i = 0;                                                                                                 \
        for (; i + EB_VL <= n; i += EB_VL) {                                                                           \
            vf sum = load(x + i);                                                                                      \
            vd low, high;                                                                                              \
            EB_UNROLL                                                                                                  \
            for (int64_t r = 1; r < rows; r++) sum += load(x + i + r * stride);                                        \
            vf_widen(sum, &low, &high);                                                                                \
            DOUBLES(to + i) += low;                                                                                    \
            DOUBLES(to + i + EB_VL / 2) += high;                                                                       \
        }                                                                                                              \
        for (int64_t r = 0; r < rows; r++)                                                                             \
            for (int64_t l = i; l < i + EB_VL && l < n; l++) to[l] += value(x[l + r * stride]);                        \
    }                                                                                                                  \
    static void rows_##name(const void *x_, int64_t stride, int64_t rows, int64_t n, void *to, const double *centre) { \
        (void)centre;                                                                                                  \
        const uint16_t *x = x_;                                                                                        \
        int64_t r = 0;                                                                                                 \
        for (; r + CHAIN_ROWS <= rows; r += CHAIN_ROWS) fold_rows_##name(x + r * stride, stride, CHAIN_ROWS, n, to);   \
        for (; r < rows; r++) fold_rows_##name(x + r * stride, stride, 1, n, to);                                      \
    }                                                                                                                  \
    static void run_##name(const void *x_, int64_t n, void *to, const double *centre) {                                \
        (void)centre;                                                                                                  \
        const uint16_t *x = x_;                                                                                        \
        double a = *(double *)to;                                                                                      \
        vd total = {0}, low, high;                                                                                     \
        int64_t i = 0;                                                                                                 \
        while (i + EB_VL <= n) {                                                                                       \
            vf sums[SUMS] = {{0}};                                                                                     \
            const int64_t end = eb_min(n, i + CHAIN * SUMS * EB_VL);                                                   \
            for (; i + SUMS * EB_VL <= end; i += SUMS * EB_VL)                                                         \
                EB_UNROLL                                                                                              \
                for (int s = 0; s < SUMS; s++) sums[s] += load(x + i + s * EB_VL);                                     \
            for (; i + EB_VL <= end; i += EB_VL) sums[0] += load(x + i);                                               \
            vf_widen(sums[0] + sums[1] + (sums[2] + sums[3]), &low, &high);                                            \
            total += low + high;                                                                                       \
        }                                                                                                              \
        EB_UNROLL                                                                                                      \
        for (int l = 0; l < EB_VL / 2; l++) a += total[l];                                                             \
        for (; i < n; i++) a += value(x[i]);                                                                           \
        *(double *)to = a;                                                                                             \
    }

/* --- kernels ------------------------------------------------------------------------------------------------------- */

enum { TYPES = EB_BOOL + 1 };
#define ONE_DOUBLE 0x3ff0000000000000
#define FOLD_OF(name, first, size) {run_##name, rows_##name, first, size}
#define REDUCTION_KERNEL(op, squares, divides, ...)                                                                              \
    static const fold of_##op[TYPES] = {__VA_ARGS__};                                                                  \
    static eb_status plan_##op(eb_node *node) { return plan_fold(node, &of_##op[eb_input(node, 0)->dtype]); }          \
    static eb_status run_##op(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {    \
        (void)scratch;                                                                                                 \
        return run_fold(node, bases, begin, end, &of_##op[eb_input(node, 0)->dtype], squares, divides);                \
    }                                                                                                                  \
    const eb_kernel EB_PASTE(any_, op, __, EB_ISA, _, vector) = {plan_##op, run_##op};

#define ADD(a, v, c) ((a) + (v))
#define MULTIPLY(a, v, c) ((a) * (v))
#define ADD_SQUARE(a, v, c) ((a) + ((v) - (c)) * ((v) - (c)))
#define JOIN_SUMS(a, b) ((a) + (b))
#define JOIN_PRODUCTS(a, b) ((a) * (b))
#define FOLD_DOUBLES(op, first, step, join)                                                                            \
    FOLD_FLOATS(op##_f32, float, (double), double, vd, DOUBLES, vd_load_floats, first, step, join, step, join)           \
    FOLD_FLOATS(op##_f64, double, (double), double, vd, DOUBLES, LOAD_DOUBLES, first, step, join, step, join)
#define OF_DOUBLES(op, first) [EB_F32] = FOLD_OF(op##_f32, first, 8), [EB_F64] = FOLD_OF(op##_f64, first, 8)
FOLD(sum_i64, uint64_t, uint64_t, ADD)
FOLD(prod_i64, uint64_t, uint64_t, MULTIPLY)
FOLD_DOUBLES(sum, 0, ADD, JOIN_SUMS)
FOLD_DOUBLES(prod, 1, MULTIPLY, JOIN_PRODUCTS)
FOLD_DOUBLES(square, 0, ADD_SQUARE, JOIN_SUMS)
#define FLOAT_OF_BF16(v) float_of((uint32_t)(v) << 16)
#define FLOAT_OF_HALF(v) float_of(f32_of_half(v))
FOLD_NARROW_SUMS(sum_bf16, FLOAT_OF_BF16, vf_load_bfloats)
FOLD_NARROW_SUMS(sum_f16, FLOAT_OF_HALF, vf_load_halves)
#define OF_SUMS OF_DOUBLES(sum, 0), [EB_BF16] = FOLD_OF(sum_bf16, 0, 8), [EB_F16] = FOLD_OF(sum_f16, 0, 8)
static const fold of_squares[TYPES] = {OF_DOUBLES(square, 0)};
REDUCTION_KERNEL(sum, NULL, 0, [EB_I64] = FOLD_OF(sum_i64, 0, 8), OF_SUMS)
REDUCTION_KERNEL(mean, NULL, 1, OF_SUMS)
REDUCTION_KERNEL(prod, NULL, 0, [EB_I64] = FOLD_OF(prod_i64, 1, 8), OF_DOUBLES(prod, ONE_DOUBLE))
REDUCTION_KERNEL(var, &of_squares[eb_input(node, 0)->dtype], 1, OF_DOUBLES(sum, 0))

#define FOLD_TYPES(op, step)                                                                                           \
    FOLD(op##_i8, int8_t, int8_t, step)                                                                                \
    FOLD(op##_u8, uint8_t, uint8_t, step)                                                                              \
    FOLD(op##_i16, int16_t, int16_t, step)                                                                             \
    FOLD(op##_i32, int32_t, int32_t, step)                                                                             \
    FOLD(op##_i64, int64_t, int64_t, step)
#define REDUCE_TYPES(op, limit)                                                                                            \
    [EB_I8] = FOLD_OF(op##_i8, INT8_##limit, 1), [EB_U8] = FOLD_OF(op##_u8, UINT8_##limit, 1),                         \
    [EB_I16] = FOLD_OF(op##_i16, INT16_##limit, 2), [EB_I32] = FOLD_OF(op##_i32, INT32_##limit, 4),                    \
    [EB_I64] = FOLD_OF(op##_i64, INT64_##limit, 8)
#define UINT8_MIN 0

/* Of floats NaN wins. Written so that GCC takes two comparisons and one selection a vector. */
#define LARGER(a, v, c) ((a) > (v) ? (a) : (v))
#define SMALLER(a, v, c) ((a) < (v) ? (a) : (v))
#define LARGER_FLOAT(a, v, c) (!((v) > (a)) && (v) == (v) ? (a) : (v))
#define SMALLER_FLOAT(a, v, c) (!((v) < (a)) && (v) == (v) ? (a) : (v))
#define JOIN_LARGER(a, b) LARGER_FLOAT(a, b, 0)
#define JOIN_SMALLER(a, b) SMALLER_FLOAT(a, b, 0)
#define LARGER_FLOATS(a, v, c) vf_maximum(a, v)
#define SMALLER_FLOATS(a, v, c) vf_minimum(a, v)
#define LARGER_DOUBLES(a, v, c) vd_select(((v) > (a)) | ((v) != (v)), v, a)
#define SMALLER_DOUBLES(a, v, c) vd_select(((v) < (a)) | ((v) != (v)), v, a)
#define LARGEST_DOUBLES(a, b) LARGER_DOUBLES(a, b, 0)
#define SMALLEST_DOUBLES(a, b) SMALLER_DOUBLES(a, b, 0)
FOLD_TYPES(amax, LARGER)
FOLD_TYPES(amin, SMALLER)
#define FOLD_EXTREMES(op, first, floats, join_floats, doubles, join_doubles, step, join)                               \
    FOLD_FLOATS(op##_f32, float, (float), float, vf, FLOATS, vf_load, first, floats, join_floats, step, join)          \
    FOLD_FLOATS(op##_f64, double, (double), double, vd, DOUBLES, LOAD_DOUBLES, first, doubles, join_doubles, step, join) \
    FOLD_FLOATS(op##_bf16, uint16_t, FLOAT_OF_BF16, float, vf, FLOATS, vf_load_bfloats, first, floats, join_floats, step, join) \
    FOLD_FLOATS(op##_f16, uint16_t, FLOAT_OF_HALF, float, vf, FLOATS, vf_load_halves, first, floats, join_floats, step, join)
#define OF_EXTREMES(op, sign)                                                                                          \
    [EB_F32] = FOLD_OF(op##_f32, INFINITE_FLOAT | (sign) << 31, 4),                                                    \
    [EB_F64] = FOLD_OF(op##_f64, (int64_t)((uint64_t)(sign) << 63 | INFINITE_DOUBLE), 8),                              \
    [EB_BF16] = FOLD_OF(op##_bf16, INFINITE_FLOAT | (sign) << 31, 4),                                                  \
    [EB_F16] = FOLD_OF(op##_f16, INFINITE_FLOAT | (sign) << 31, 4)
#define INFINITE_FLOAT 0x7f800000
#define INFINITE_DOUBLE 0x7ff0000000000000
FOLD_EXTREMES(amax, -INFINITY, LARGER_FLOATS, vf_maximum, LARGER_DOUBLES, LARGEST_DOUBLES, LARGER_FLOAT, JOIN_LARGER)
FOLD_EXTREMES(amin, INFINITY, SMALLER_FLOATS, vf_minimum, SMALLER_DOUBLES, SMALLEST_DOUBLES, SMALLER_FLOAT, JOIN_SMALLER)
REDUCTION_KERNEL(amax, NULL, 0, REDUCE_TYPES(amax, MIN), OF_EXTREMES(amax, 1ll))
REDUCTION_KERNEL(amin, NULL, 0, REDUCE_TYPES(amin, MAX), OF_EXTREMES(amin, 0ll))

#define EITHER(a, v, c) ((a) | ((v) != 0))
#define BOTH(a, v, c) ((a) & ((v) != 0))
#define FOLD_TESTS(op, step)                                                                                           \
    FOLD(op##_u8, uint8_t, uint8_t, step)                                                                              \
    FOLD(op##_i32, uint32_t, uint8_t, step)                                                                            \
    FOLD(op##_i64, uint64_t, uint8_t, step)                                                                            \
    FOLD(op##_f32, float, uint8_t, step)
#define OF_TESTS(op, first)                                                                                            \
    [EB_U8] = FOLD_OF(op##_u8, first, 1), [EB_BOOL] = FOLD_OF(op##_u8, first, 1), [EB_I8] = FOLD_OF(op##_u8, first, 1), \
    [EB_I32] = FOLD_OF(op##_i32, first, 1), [EB_I64] = FOLD_OF(op##_i64, first, 1), [EB_F32] = FOLD_OF(op##_f32, first, 1)
FOLD_TESTS(any, EITHER)
FOLD_TESTS(all, BOTH)
REDUCTION_KERNEL(any, NULL, 0, OF_TESTS(any, 0))
REDUCTION_KERNEL(all, NULL, 0, OF_TESTS(all, 1))
