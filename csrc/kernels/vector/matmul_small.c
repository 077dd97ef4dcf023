/* matmul of float32 and float64 where packing would cost more than the product: a matrix and a vector, and matrices of a
 * few elements.
 *
 *   dots     one side is a vector, and both are contiguous along k: a dot product for each element of the result, in
 *            blocks that are added in double
 *   columns  one side is a vector, and the matrix is contiguous along the other axis: sums of its rows, four at a time
 *   tiny     loops over the elements, for one matrix of the batch after the other, of any strides
 */
#include "matmul.h"

enum {
    TINY = 256,      /* multiply-adds of a tiny product */
    WORTH = 1 << 16, /* multiply-adds of a tile */
    BLOCK = 4096,    /* elements of a dot product whose sums stay in vectors */
    WIDE = 512,      /* columns that are summed at once, */
    DEEP = 1024,     /* and rows, before they join the result */
};

/* The matrix, the vector and the result of a product with a vector; strides of a batch are in `shape`. */
typedef struct {
    matmul_shapes shape;
    int64_t rows, row, k, vector, y; /* rows of the matrix, one for each element of the result; strides */
    int matrix;                      /* which operand it is */
} product;

static product describe(const eb_node *node) {
    product p = {.shape = matmul_shapes_of(node)};
    const matmul_shapes *s = &p.shape;
    const eb_tensor *y = eb_output(node);
    p.matrix = s->N != 1;
    p.rows = p.matrix ? s->N : s->M;
    p.row = p.matrix ? s->b_column : s->a_row;
    p.k = p.matrix ? s->b_k : s->a_k;
    p.vector = p.matrix ? s->a_k : s->b_k;
    p.y = p.matrix ? y->stride[y->rank - 1] : s->y_row;
    return p;
}

static int is_tiny(const matmul_shapes *s) {
    return s->M <= TINY && s->N <= TINY && s->K <= TINY && s->M * s->N * s->K <= TINY;
}
static int has_dots(const product *p) { return (p->k == 1 && p->vector == 1) || p->shape.K <= 1; }

typedef struct {
    int64_t each, pieces; /* batches a tile, if they are tiny; else rows, and tiles of a batch */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node) {
    const eb_tensor *a = eb_input(node, EB_IN_MATMUL_A), *b = eb_input(node, EB_IN_MATMUL_B), *y = eb_output(node);
    if ((a->dtype != EB_F32 && a->dtype != EB_F64) || b->dtype != a->dtype) return EB_NOT_APPLICABLE;
    const product p = describe(node);
    const matmul_shapes *s = &p.shape;
    if (is_tiny(s)) {
        if (y->stride[y->rank - 1] != 1 && s->N > 1) return EB_NOT_APPLICABLE;
        edit_tiling(node)->each = eb_max(1, WORTH / 4 / (s->M * s->N * s->K + 8));
        node->tiles = s->M && s->N ? eb_ceil_div(s->batch.count, tiling_of(node)->each) : 0;
        return EB_OK;
    }
    if (s->M != 1 && s->N != 1) return EB_NOT_APPLICABLE;
    if (!has_dots(&p) && !((p.row == 1 || p.rows == 1) && (p.y == 1 || p.rows == 1))) return EB_NOT_APPLICABLE;
    edit_tiling(node)->each = eb_max(1, has_dots(&p) ? WORTH / eb_max(1, s->K) : WIDE);
    edit_tiling(node)->pieces = eb_ceil_div(p.rows, tiling_of(node)->each);
    node->tiles = s->batch.count * tiling_of(node)->pieces;
    return EB_OK;
}

#define FUNCTIONS(of, real, lanes)                                                                                     \
    EB_INLINE double dot_##of(const real *a, const real *b, int64_t K) {                                               \
        enum { LANES = sizeof(lanes) / sizeof(real), SUMS = 4 };                                                       \
        double total = 0;                                                                                              \
        for (int64_t k = 0, end; k < K; k = end) {                                                                     \
            lanes sum[SUMS] = {{0}};                                                                                   \
            real rest = 0;                                                                                             \
            end = eb_min(K, k + BLOCK);                                                                                \
            for (; k + SUMS * LANES <= end; k += SUMS * LANES)                                                         \
                EB_UNROLL                                                                                              \
                for (int i = 0; i < SUMS; i++) {                                                                       \
                    lanes x, z;                                                                                        \
                    memcpy(&x, a + k + i * LANES, sizeof x);                                                           \
                    memcpy(&z, b + k + i * LANES, sizeof z);                                                           \
                    sum[i] += x * z;                                                                                   \
                }                                                                                                      \
            for (; k < end; k++) rest += a[k] * b[k];                                                                  \
            sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);                                                            \
            for (int i = 0; i < LANES; i++) rest += sum[0][i];                                                         \
            total += rest;                                                                                             \
        }                                                                                                              \
        return total;                                                                                                  \
    }                                                                                                                  \
    /* `count` columns of `K` rows that lie `step` apart, each times its factor. */                                    \
    EB_INLINE void sum_rows_##of(const real *x, int64_t step, const real *factor, int64_t factor_step, int64_t K,      \
                                 int64_t count, real alpha, real *y) {                                                 \
        for (int64_t k = 0, end; k == 0 || k < K; k = end) {                                                           \
            real sum[WIDE] = {0};                                                                                      \
            const int64_t first = k == 0;                                                                              \
            end = eb_max(1, eb_min(K, k + DEEP));                                                                      \
            for (; k + 4 <= eb_min(K, end); k += 4) {                                                                  \
                const real *r = x + k * step, *f = factor + k * factor_step;                                           \
                const real f0 = f[0], f1 = f[factor_step], f2 = f[2 * factor_step], f3 = f[3 * factor_step];           \
                for (int64_t n = 0; n < count; n++)                                                                    \
                    sum[n] += (r[n] * f0 + r[step + n] * f1) + (r[2 * step + n] * f2 + r[3 * step + n] * f3);          \
            }                                                                                                          \
            for (; k < eb_min(K, end); k++)                                                                            \
                for (int64_t n = 0; n < count; n++) sum[n] += x[k * step + n] * factor[k * factor_step];               \
            for (int64_t n = 0; n < count; n++) y[n] = first ? alpha * sum[n] : y[n] + alpha * sum[n];                 \
        }                                                                                                              \
    }                                                                                                                  \
    EB_INLINE void multiply_tiny_##of(const matmul_shapes *s, const real *a, const real *b, real alpha, real *y) {     \
        for (int64_t m = 0; m < s->M; m++)                                                                             \
            for (int64_t n = 0; n < s->N; n++) {                                                                       \
                const real *row = a + m * s->a_row, *column = b + n * s->b_column;                                     \
                real sum = 0;                                                                                          \
                for (int64_t k = 0; k < s->K; k++) sum += row[k * s->a_k] * column[k * s->b_k];                        \
                y[m * s->y_row + n] = alpha * sum;                                                                     \
            }                                                                                                          \
    }                                                                                                                  \
    static void run_##of(const eb_node *node, void *const *bases, int64_t begin, int64_t end) {                        \
        const product p = describe(node);                                                                              \
        const matmul_shapes s = p.shape;                                                                               \
        const real *a = eb_data(eb_input(node, EB_IN_MATMUL_A), bases);                                                \
        const real *b = eb_data(eb_input(node, EB_IN_MATMUL_B), bases);                                                \
        const double alpha = node->reals[EB_REAL_MATMUL_ALPHA];                                                        \
        real *y = eb_data(eb_output(node), bases);                                                                     \
        const int64_t each = tiling_of(node)->each, pieces = tiling_of(node)->pieces;                                  \
        eb_cursor at;                                                                                                  \
        if (is_tiny(&s)) {                                                                                             \
            int64_t flat = begin * each;                                                                               \
            const int64_t last = eb_min(s.batch.count, end * each), inner = s.batch.rank - 1;                          \
            for (eb_cursor_seek(&s.batch, &at, flat); flat < last;) {                                                  \
                const int64_t run = eb_cursor_run(&s.batch, &at, last - flat);                                         \
                for (int64_t i = 0; i < run; i++)                                                                      \
                    multiply_tiny_##of(&s, a + at.offset[0] + i * s.batch.stride[0][inner],                            \
                                       b + at.offset[1] + i * s.batch.stride[1][inner], (real)alpha,                   \
                                       y + at.offset[2] + i * s.batch.stride[2][inner]);                               \
                eb_cursor_advance(&s.batch, &at, run);                                                                 \
                flat += run;                                                                                           \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        for (int64_t tile = begin; tile < end; tile++) {                                                               \
            eb_cursor_seek(&s.batch, &at, tile / pieces);                                                              \
            const int64_t row = tile % pieces * each, count = eb_min(each, p.rows - row);                              \
            const real *matrix = (p.matrix ? b : a) + at.offset[p.matrix] + row * p.row;                               \
            const real *vector = (p.matrix ? a : b) + at.offset[!p.matrix];                                            \
            real *to = y + at.offset[2] + row * p.y;                                                                   \
            if (has_dots(&p))                                                                                          \
                for (int64_t r = 0; r < count; r++)                                                                    \
                    to[r * p.y] = (real)(alpha * dot_##of(matrix + r * p.row, vector, s.K));                           \
            else                                                                                                       \
                sum_rows_##of(matrix, p.k, vector, p.vector, s.K, count, (real)alpha, to);                             \
        }                                                                                                              \
    }
FUNCTIONS(f32, float, vf)
FUNCTIONS(f64, double, vd)

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    if (eb_output(node)->dtype == EB_F64)
        run_f64(node, bases, begin, end);
    else
        run_f32(node, bases, begin, end);
    return EB_OK;
}
const eb_kernel EB_PASTE(any_, matmul, __, EB_ISA, _, small) = {plan, run};
