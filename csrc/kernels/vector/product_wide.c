/* matmul and linear of float64. A tile is a panel of two vectors of columns and up to ROWS rows. A block of the panel is
 * packed into scratch, EB_MR rows at a time multiply it in registers, and their sums wait in scratch for the epilogue: y
 * may be in the memory of the residual. */
#include "../../ref/activate.h"
#include "gemm.h"
#include "matmul.h"

enum {
    LANES = EB_VL / 2,
    PANEL = 2 * LANES,
    DEEP = 256, /* k of a block */
    ROWS = 192,
};

typedef struct {
    double b[DEEP * PANEL], sums[ROWS * PANEL];
} room;

typedef struct {
    int64_t row_tiles, panels, residual_row;
} tiling;
EB_NODE_PLAN(tiling)

/* What the epilogue of a tile reads; NULL where there is none. */
typedef struct {
    double alpha;
    const double *bias, *residual;
    int64_t residual_row, activation;
} epilogue;

static void cut(eb_node *node, const matmul_shapes *s) {
    edit_tiling(node)->row_tiles = eb_ceil_div(s->M, ROWS);
    edit_tiling(node)->panels = eb_ceil_div(s->N, PANEL);
    node->tiles = s->batch.count * tiling_of(node)->row_tiles * tiling_of(node)->panels;
    node->scratch_bytes = sizeof(room);
}

/* Adds the products of R rows of a, `row` apart, with K rows of a packed panel to `sums`. */
EB_INLINE void multiply_rows(const double *a, int64_t row, int64_t k_step, const double *b, int64_t K, double *sums,
                             const int R) {
    vd sum[EB_MR][2];
    EB_UNROLL
    for (int r = 0; r < R; r++) sum[r][0] = ((vd *)sums)[2 * r], sum[r][1] = ((vd *)sums)[2 * r + 1];
    for (int64_t k = 0; k < K; k++) {
        const vd low = ((const vd *)b)[2 * k], high = ((const vd *)b)[2 * k + 1];
        EB_UNROLL
        for (int r = 0; r < R; r++) {
            const vd x = vd_set(a[r * row + k * k_step]);
            sum[r][0] += x * low, sum[r][1] += x * high;
        }
    }
    EB_UNROLL
    for (int r = 0; r < R; r++) ((vd *)sums)[2 * r] = sum[r][0], ((vd *)sums)[2 * r + 1] = sum[r][1];
}

static void multiply_all(const double *a, int64_t row, int64_t k_step, const double *b, int64_t K, double *sums,
                         int64_t rows) {
    int64_t m = 0;
    for (; m + EB_MR <= rows; m += EB_MR) multiply_rows(a + m * row, row, k_step, b, K, sums + m * PANEL, EB_MR);
    for (; m + 2 <= rows; m += 2) multiply_rows(a + m * row, row, k_step, b, K, sums + m * PANEL, 2);
    if (m < rows) multiply_rows(a + m * row, row, k_step, b, K, sums + m * PANEL, 1);
}

static void pack(const double *b, int64_t k_step, int64_t column, int64_t K, int64_t columns, double *panel) {
    if (columns < PANEL) memset(panel, 0, (size_t)(K * PANEL) * 8);
    for (int64_t k = 0; k < K; k++)
        for (int64_t n = 0; n < columns; n++) panel[k * PANEL + n] = b[k * k_step + n * column];
}

static void finish(const epilogue *e, const double *sums, int64_t rows, int64_t columns, double *y, int64_t y_row) {
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < columns; n++) {
            double value = sums[m * PANEL + n] * e->alpha;
            if (e->bias) value += e->bias[n];
            if (e->residual) value += e->residual[m * e->residual_row + n];
            y[m * y_row + n] = e->activation == EB_ACTIVATION_NONE ? value : eb_activate(e->activation, value);
        }
}

static void run_tiles(const eb_node *node, const matmul_shapes *s, const double *a, const double *b, double *y, epilogue all,
                      int64_t begin, int64_t end, room *work) {
    const tiling t = *tiling_of(node);
    for (int64_t tile = begin; tile < end; tile++) {
        eb_cursor at;
        eb_cursor_seek(&s->batch, &at, tile / (t.row_tiles * t.panels));
        const int64_t n = tile % t.panels * PANEL, columns = eb_min(PANEL, s->N - n);
        const int64_t row_tile = tile / t.panels % t.row_tiles;
        const int64_t m = eb_piece(s->M, t.row_tiles, row_tile), rows = eb_piece(s->M, t.row_tiles, row_tile + 1) - m;
        memset(work->sums, 0, (size_t)(rows * PANEL) * 8);
        for (int64_t k = 0; k < s->K; k += DEEP) {
            const int64_t depth = eb_min(DEEP, s->K - k);
            pack(b + at.offset[1] + k * s->b_k + n * s->b_column, s->b_k, s->b_column, depth, columns, work->b);
            multiply_all(a + at.offset[0] + m * s->a_row + k * s->a_k, s->a_row, s->a_k, work->b, depth, work->sums, rows);
        }
        epilogue e = all;
        if (e.bias) e.bias += n;
        if (e.residual) e.residual += m * e.residual_row + n;
        finish(&e, work->sums, rows, columns, y + at.offset[2] + m * s->y_row + n, s->y_row);
    }
}

static eb_status plan_matmul(eb_node *node) {
    const eb_tensor *b = eb_input(node, EB_IN_MATMUL_B), *y = eb_output(node);
    if (y->dtype != EB_F64 || b->dtype != EB_F64 || !unit_columns(y)) return EB_NOT_APPLICABLE;
    const matmul_shapes s = matmul_shapes_of(node);
    cut(node, &s);
    return EB_OK;
}

static eb_status run_matmul(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const matmul_shapes s = matmul_shapes_of(node);
    const epilogue e = {.alpha = node->reals[EB_REAL_MATMUL_ALPHA], .activation = EB_ACTIVATION_NONE};
    run_tiles(node, &s, eb_data(eb_input(node, EB_IN_MATMUL_A), bases), eb_data(eb_input(node, EB_IN_MATMUL_B), bases),
              eb_data(eb_output(node), bases), e, begin, end, scratch);
    return EB_OK;
}
const eb_kernel EB_PASTE(any_, matmul, __, EB_ISA, _, wide) = {plan_matmul, run_matmul};

/* The rows of x and y, whose strides their tensors have if they are dense. */
static matmul_shapes linear_shapes(const eb_node *node) {
    const eb_tensor *weight = eb_input(node, EB_IN_LINEAR_WEIGHT), *y = eb_output(node);
    const int columns = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] ? 0 : 1;
    const int64_t N = weight->shape[columns], K = weight->shape[1 - columns];
    return (matmul_shapes){.M = N ? eb_size(y) / N : 0,
                           .N = N,
                           .K = K,
                           .a_row = K,
                           .a_k = 1,
                           .b_k = weight->stride[1 - columns],
                           .b_column = weight->stride[columns],
                           .y_row = N,
                           .batch = eb_loop_new(3)};
}

static eb_status plan_linear(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_LINEAR_X), *bias = eb_optional_input(node, EB_IN_LINEAR_BIAS);
    const eb_tensor *residual = eb_optional_input(node, EB_IN_LINEAR_RESIDUAL), *y = eb_output(node);
    if (x->dtype != EB_F64 || eb_input(node, EB_IN_LINEAR_WEIGHT)->dtype != EB_F64) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x) || (bias && !eb_is_dense(bias))) return EB_NEEDS_DENSE;
    if (residual && (!rows_of(residual, &edit_tiling(node)->residual_row) || !unit_columns(residual)))
        return EB_NEEDS_DENSE;
    const matmul_shapes s = linear_shapes(node);
    cut(node, &s);
    return EB_OK;
}

static eb_status run_linear(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const matmul_shapes s = linear_shapes(node);
    const epilogue e = {.alpha = node->reals[EB_REAL_LINEAR_ALPHA],
                        .bias = eb_optional_data(node, EB_IN_LINEAR_BIAS, bases),
                        .residual = eb_optional_data(node, EB_IN_LINEAR_RESIDUAL, bases),
                        .residual_row = tiling_of(node)->residual_row,
                        .activation = node->ints[EB_INT_LINEAR_ACTIVATION]};
    run_tiles(node, &s, eb_data(eb_input(node, EB_IN_LINEAR_X), bases), eb_data(eb_input(node, EB_IN_LINEAR_WEIGHT), bases),
              eb_data(eb_output(node), bases), e, begin, end, scratch);
    return EB_OK;
}
const eb_kernel EB_PASTE(any_, linear, __, EB_ISA, _, wide) = {plan_linear, run_linear};
