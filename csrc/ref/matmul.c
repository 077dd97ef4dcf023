/* Reference of matmul and linear: a dot product an output element, in double or int64. */
#include "activate.h"
#include "element.h"

/* --- matmul: a [..., M, K] @ b [..., K, N] ------------------------------------------------------------------------ */

typedef struct {
    int64_t M, N, K, a_row, a_k, b_k, b_column, y_row, y_column;
    eb_loop batch; /* operands: a, b, y */
} product;

static product describe(const eb_node *node) {
    const eb_tensor *a = eb_input(node, EB_IN_MATMUL_A), *b = eb_input(node, EB_IN_MATMUL_B), *y = eb_output(node);
    int a_last = a->rank - 1, b_last = b->rank - 1, y_last = y->rank - 1;
    int a_k = a_last - (node->ints[EB_INT_MATMUL_TRANSPOSE_A] != 0), a_row = 2 * a_last - 1 - a_k;
    int b_column = b_last - (node->ints[EB_INT_MATMUL_TRANSPOSE_B] != 0), b_k = 2 * b_last - 1 - b_column;
    product p = {.M = y->shape[y_last - 1],
                 .N = y->shape[y_last],
                 .K = a->shape[a_k],
                 .a_row = a->stride[a_row],
                 .a_k = a->stride[a_k],
                 .b_k = b->stride[b_k],
                 .b_column = b->stride[b_column],
                 .y_row = y->stride[y_last - 1],
                 .y_column = y->stride[y_last],
                 .batch = eb_loop_new(3)};
    for (int axis = 0; axis < y->rank - 2; axis++) {
        int64_t strides[3] = {eb_broadcast_stride(a, y->rank, axis), eb_broadcast_stride(b, y->rank, axis),
                              y->stride[axis]};
        eb_loop_axis(&p.batch, y->shape[axis], strides);
    }
    return p;
}

static eb_status plan_matmul(eb_node *node) {
    int32_t dtype = eb_input(node, EB_IN_MATMUL_A)->dtype;
    if (dtype == EB_BOOL || eb_input(node, EB_IN_MATMUL_B)->dtype != dtype || eb_output(node)->dtype != dtype)
        return EB_NOT_APPLICABLE;
    product p = describe(node);
    node->tiles = eb_tile_count(p.N ? p.M * p.batch.count : 0, p.N * (p.K + 1));
    return EB_OK;
}

/* A tile is a range of rows of the output. */
static eb_status run_matmul(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    int32_t dtype = eb_output(node)->dtype;
    const void *a = eb_data(eb_input(node, EB_IN_MATMUL_A), bases), *b = eb_data(eb_input(node, EB_IN_MATMUL_B), bases);
    void *y = eb_data(eb_output(node), bases);
    double alpha = node->reals[EB_REAL_MATMUL_ALPHA];
    product p = describe(node);
    int64_t rows = p.M * p.batch.count, first = eb_piece(rows, node->tiles, begin), last = eb_piece(rows, node->tiles, end);
    for (int64_t row = first; row < last; row++) {
        eb_cursor c;
        eb_cursor_seek(&p.batch, &c, row / p.M);
        int64_t m = row % p.M;
        for (int64_t n = 0; n < p.N; n++) {
            double real = 0;
            uint64_t whole = 0;
            for (int64_t k = 0; k < p.K; k++) {
                int64_t i = c.offset[0] + m * p.a_row + k * p.a_k, j = c.offset[1] + k * p.b_k + n * p.b_column;
                if (eb_is_real(dtype))
                    real += eb_load_real(dtype, a, i) * eb_load_real(dtype, b, j);
                else
                    whole += (uint64_t)eb_load_int(dtype, a, i) * (uint64_t)eb_load_int(dtype, b, j);
            }
            if (alpha != 1) whole = (uint64_t)eb_real_to_int(EB_I64, alpha * (double)(int64_t)whole);
            eb_store_any(dtype, y, c.offset[2] + m * p.y_row + n * p.y_column, eb_is_real(dtype), alpha * real,
                         (int64_t)whole);
        }
    }
    return EB_OK;
}
const eb_kernel any_matmul__generic_reference = {plan_matmul, run_matmul, NULL, NULL};

/* --- linear: x [..., K], weight [N, K] or [K, N] ------------------------------------------------------------------ */

/* Of linear and gated_linear. */
_Static_assert((int)EB_IN_LINEAR_X == (int)EB_IN_GATED_LINEAR_X, "linear and gated_linear differ");
_Static_assert((int)EB_IN_LINEAR_WEIGHT == (int)EB_IN_GATED_LINEAR_WEIGHT, "linear and gated_linear differ");
static eb_status plan_linear(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_LINEAR_X), *weight = eb_input(node, EB_IN_LINEAR_WEIGHT);
    const eb_tensor *y = eb_output(node);
    if (!eb_is_real(x->dtype) || weight->dtype != x->dtype || weight->is_packed) return EB_NOT_APPLICABLE;
    int64_t K = x->shape[x->rank - 1], N = y->shape[y->rank - 1];
    node->tiles = eb_tile_count(N ? eb_size(y) / N : 0, N * (K + 1));
    return EB_OK;
}

static eb_status run_linear(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, EB_IN_LINEAR_X), *weight = eb_input(node, EB_IN_LINEAR_WEIGHT);
    const eb_tensor *y = eb_output(node);
    const eb_tensor *bias = eb_optional_input(node, EB_IN_LINEAR_BIAS);
    const eb_tensor *residual = eb_optional_input(node, EB_IN_LINEAR_RESIDUAL);
    int transposed = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] != 0, last = y->rank - 1;
    int64_t K = x->shape[x->rank - 1], N = y->shape[last], w_n = weight->stride[!transposed], w_k = weight->stride[transposed];
    int64_t rows = eb_size(y) / N;
    eb_loop x_rows = eb_loop_axes(x, 0, x->rank - 1), y_rows = eb_loop_axes(y, 0, last);
    eb_loop residual_rows = residual ? eb_loop_axes(residual, 0, last) : y_rows;
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        int64_t x_start = eb_loop_offset(&x_rows, row), y_start = eb_loop_offset(&y_rows, row);
        for (int64_t n = 0; n < N; n++) {
            double sum = 0;
            for (int64_t k = 0; k < K; k++)
                sum += eb_load_real(x->dtype, eb_data(x, bases), x_start + k * x->stride[x->rank - 1]) *
                       eb_load_real(x->dtype, eb_data(weight, bases), n * w_n + k * w_k);
            sum *= node->reals[EB_REAL_LINEAR_ALPHA];
            if (bias) sum += eb_load_real(bias->dtype, eb_data(bias, bases), n * bias->stride[bias->rank - 1]);
            if (residual)
                sum += eb_load_real(residual->dtype, eb_data(residual, bases),
                                    eb_loop_offset(&residual_rows, row) + n * residual->stride[last]);
            eb_store_real(y->dtype, eb_data(y, bases), y_start + n * y->stride[last],
                          eb_activate(node->ints[EB_INT_LINEAR_ACTIVATION], sum));
        }
    }
    return EB_OK;
}
const eb_kernel any_linear__generic_reference = {plan_linear, run_linear, NULL, NULL};

/* --- gated_linear: x [..., K], weight [2N, K] or [K, 2N] ----------------------------------------------------------- */

/* Row `row` of x times column `n` of the weight, plus bias[n]. */
static double project(const eb_node *node, void *const *bases, int64_t x_start, int64_t n) {
    const eb_tensor *x = eb_input(node, EB_IN_GATED_LINEAR_X), *weight = eb_input(node, EB_IN_GATED_LINEAR_WEIGHT);
    int transposed = node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] != 0, last = x->rank - 1;
    double sum = 0;
    for (int64_t k = 0; k < x->shape[last]; k++)
        sum += eb_load_real(x->dtype, eb_data(x, bases), x_start + k * x->stride[last]) *
               eb_load_real(x->dtype, eb_data(weight, bases), n * weight->stride[!transposed] + k * weight->stride[transposed]);
    if (!eb_is_present(node, EB_IN_GATED_LINEAR_BIAS)) return sum;
    const eb_tensor *bias = eb_input(node, EB_IN_GATED_LINEAR_BIAS);
    return sum + eb_load_real(bias->dtype, eb_data(bias, bases), n * bias->stride[0]);
}

static eb_status run_gated_linear(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, EB_IN_GATED_LINEAR_X), *y = eb_output(node);
    int last = y->rank - 1;
    int64_t N = y->shape[last], rows = eb_size(y) / N;
    eb_loop x_rows = eb_loop_axes(x, 0, x->rank - 1), y_rows = eb_loop_axes(y, 0, last);
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        int64_t x_start = eb_loop_offset(&x_rows, row), y_start = eb_loop_offset(&y_rows, row);
        for (int64_t n = 0; n < N; n++) {
            double gate = eb_activate(node->ints[EB_INT_GATED_LINEAR_ACTIVATION], project(node, bases, x_start, n));
            eb_store_real(y->dtype, eb_data(y, bases), y_start + n * y->stride[last],
                          gate * project(node, bases, x_start, N + n));
        }
    }
    return EB_OK;
}
const eb_kernel any_gated_linear__generic_reference = {plan_linear, run_gated_linear, NULL, NULL};
