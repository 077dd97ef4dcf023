/* Reference of matmul, linear and gated_linear: a dot product for each element of the result. */
#include "activate.h"
#include "weight.h"

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
    const eb_tensor *a = eb_input(node, EB_IN_MATMUL_A), *b = eb_input(node, EB_IN_MATMUL_B);
    const int has_types = eb_is_real(a->dtype) && eb_output(node)->dtype == a->dtype;
    if (!has_types || (!eb_is_encoded(b) && b->dtype != a->dtype) || (eb_is_encoded(b) && b->rank != 2))
        return EB_NOT_APPLICABLE;
    product p = describe(node);
    node->tiles = eb_tile_count(p.N ? p.M * p.batch.count : 0, p.N * (p.K + 1));
    node->scratch_bytes = 2 * p.K * 8;
    return EB_OK;
}

/* A tile is a range of rows of the output. */
static eb_status run_matmul(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const int32_t dtype = eb_output(node)->dtype;
    const int64_t compute = node->ints[EB_INT_MATMUL_COMPUTE];
    const int b_axis = node->ints[EB_INT_MATMUL_TRANSPOSE_B] ? 1 : 0; /* the summed axis of `b`, if `b` has two axes */
    const void *a = eb_data(eb_input(node, EB_IN_MATMUL_A), bases);
    const eb_weight b = eb_weight_of(node, bases, EB_IN_MATMUL_B, dtype);
    product p = describe(node);
    double *x = scratch, *w = x + p.K;
    int64_t rows = p.M * p.batch.count;
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        eb_cursor c;
        eb_cursor_seek(&p.batch, &c, row / p.M);
        const int64_t m = row % p.M;
        eb_plain_line(compute, dtype, a, c.offset[0] + m * p.a_row, p.a_k, p.K, x);
        for (int64_t n = 0; n < p.N; n++) {
            if (eb_is_encoded(b.t))
                eb_weight_line(compute, &b, b_axis, n, w);
            else
                eb_plain_line(compute, dtype, b.data, c.offset[1] + n * p.b_column, p.b_k, p.K, w);
            eb_store_real(dtype, eb_data(eb_output(node), bases), c.offset[2] + m * p.y_row + n * p.y_column,
                          node->reals[EB_REAL_MATMUL_ALPHA] * eb_dot(x, w, p.K));
        }
    }
    return EB_OK;
}
const eb_kernel any_anyw_matmul__generic_reference = {plan_matmul, run_matmul};

/* --- what linear and gated_linear share --------------------------------------------------------------------------- */

static eb_status plan_rows(eb_node *node, int scale_input) {
    const eb_tensor *x = eb_input(node, EB_IN_PRODUCT_X), *weight = eb_input(node, EB_IN_PRODUCT_WEIGHT);
    const eb_tensor *y = eb_output(node);
    const int is_of_bytes = eb_is_present(node, scale_input) && x->dtype == EB_I8;
    if (!(is_of_bytes || eb_is_real(x->dtype)) || (!eb_is_encoded(weight) && weight->dtype != x->dtype) || weight->is_packed)
        return EB_NOT_APPLICABLE;
    int64_t K = x->shape[x->rank - 1], N = y->shape[y->rank - 1];
    node->tiles = eb_tile_count(N ? eb_size(y) / N : 0, N * (K + 1));
    node->scratch_bytes = 2 * K * 8;
    return EB_OK;
}

/* A row of x, by which columns of a weight are multiplied. */
typedef struct {
    const eb_weight *weight;
    int summed; /* axis of the weight */
    int64_t compute, K;
    double *numbers, *column; /* of the row, and room for a column */
    float scale;
} factor_row;

static void read_row(factor_row *f, const eb_node *node, void *const *bases, int scale_input, int64_t row) {
    const eb_tensor *x = eb_input(node, EB_IN_PRODUCT_X), *scale = eb_input(node, scale_input);
    eb_loop rows = eb_loop_axes(x, 0, x->rank - 1);
    const int64_t at = eb_loop_offset(&rows, row), step = x->stride[x->rank - 1];
    if (f->compute != EB_COMPUTE_INT8) {
        eb_plain_line(f->compute, x->dtype, eb_data(x, bases), at, step, f->K, f->numbers);
        return;
    }
    for (int64_t k = 0; k < f->K; k++) f->numbers[k] = (double)eb_load_int(x->dtype, eb_data(x, bases), at + k * step);
    rows = eb_loop_axes(scale, 0, scale->rank - 1);
    f->scale = ((const float *)eb_data(scale, bases))[eb_loop_offset(&rows, row)];
}

/* Of int8, each step is rounded to float; twice as many digits and one are enough to round but once. */
static double rounded_step(int64_t compute, double value) { return compute == EB_COMPUTE_INT8 ? (float)value : value; }

static double multiply_column(const factor_row *f, int64_t n) {
    if (f->compute != EB_COMPUTE_INT8) {
        eb_weight_line(f->compute, f->weight, f->summed, n, f->column);
        return eb_dot(f->numbers, f->column, f->K);
    }
    int64_t at[2] = {n, n};
    for (at[f->summed] = 0; at[f->summed] < f->K; at[f->summed]++) f->column[at[f->summed]] = (double)eb_integer_at(f->weight, at);
    at[f->summed] = 0;
    const float sum = (float)eb_dot(f->numbers, f->column, f->K); /* which is exact in double */
    return (float)((float)(sum * eb_scale_at(f->weight, at)) * (double)f->scale);
}

/* --- linear: x [..., K], weight [N, K] or [K, N] ------------------------------------------------------------------ */

static eb_status plan_linear(eb_node *node) { return plan_rows(node, EB_IN_LINEAR_SCALE); }

static eb_status run_linear(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *x = eb_input(node, EB_IN_LINEAR_X), *y = eb_output(node);
    const eb_tensor *bias = eb_optional_input(node, EB_IN_LINEAR_BIAS);
    const eb_tensor *residual = eb_optional_input(node, EB_IN_LINEAR_RESIDUAL);
    const eb_weight weight = eb_weight_of(node, bases, EB_IN_LINEAR_WEIGHT, y->dtype);
    const int last = y->rank - 1;
    const int64_t compute = node->ints[EB_INT_LINEAR_COMPUTE], K = x->shape[x->rank - 1], N = y->shape[last];
    const int64_t rows = eb_size(y) / N;
    factor_row f = {&weight, node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] ? 1 : 0, compute, K, scratch, (double *)scratch + K, 1};
    eb_loop y_rows = eb_loop_axes(y, 0, last);
    eb_loop residual_rows = residual ? eb_loop_axes(residual, 0, last) : y_rows;
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        read_row(&f, node, bases, EB_IN_LINEAR_SCALE, row);
        for (int64_t n = 0; n < N; n++) {
            double sum = rounded_step(compute, multiply_column(&f, n) * node->reals[EB_REAL_LINEAR_ALPHA]);
            if (bias) {
                sum += eb_load_real(bias->dtype, eb_data(bias, bases), n * bias->stride[bias->rank - 1]);
                sum = rounded_step(compute, sum);
            }
            if (residual) {
                sum += eb_load_real(residual->dtype, eb_data(residual, bases),
                                    eb_loop_offset(&residual_rows, row) + n * residual->stride[last]);
                sum = rounded_step(compute, sum);
            }
            eb_store_real(y->dtype, eb_data(y, bases), eb_loop_offset(&y_rows, row) + n * y->stride[last],
                          eb_activate(node->ints[EB_INT_LINEAR_ACTIVATION], sum));
        }
    }
    return EB_OK;
}
const eb_kernel any_anyw_linear__generic_reference = {plan_linear, run_linear};

/* --- gated_linear: x [..., K], weight [2N, K] or [K, 2N] ----------------------------------------------------------- */

static eb_status plan_gated_linear(eb_node *node) { return plan_rows(node, EB_IN_GATED_LINEAR_SCALE); }

/* A row of x times column `n` of the weight, plus bias[n]. */
static double project(const eb_node *node, void *const *bases, const factor_row *row, int64_t n) {
    const double sum = multiply_column(row, n);
    if (!eb_is_present(node, EB_IN_GATED_LINEAR_BIAS)) return sum;
    const eb_tensor *bias = eb_input(node, EB_IN_GATED_LINEAR_BIAS);
    return rounded_step(row->compute, sum + eb_load_real(bias->dtype, eb_data(bias, bases), n * bias->stride[0]));
}

static eb_status run_gated_linear(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *x = eb_input(node, EB_IN_GATED_LINEAR_X), *y = eb_output(node);
    const eb_weight weight = eb_weight_of(node, bases, EB_IN_GATED_LINEAR_WEIGHT, y->dtype);
    const int last = y->rank - 1;
    const int64_t N = y->shape[last], rows = eb_size(y) / N, K = x->shape[x->rank - 1];
    factor_row f = {&weight, node->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] ? 1 : 0, node->ints[EB_INT_GATED_LINEAR_COMPUTE], K,
                    scratch, (double *)scratch + K, 1};
    eb_loop y_rows = eb_loop_axes(y, 0, last);
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        read_row(&f, node, bases, EB_IN_GATED_LINEAR_SCALE, row);
        for (int64_t n = 0; n < N; n++) {
            double gate = eb_activate(node->ints[EB_INT_GATED_LINEAR_ACTIVATION], project(node, bases, &f, n));
            eb_store_real(y->dtype, eb_data(y, bases), eb_loop_offset(&y_rows, row) + n * y->stride[last],
                          gate * project(node, bases, &f, N + n));
        }
    }
    return EB_OK;
}
const eb_kernel any_anyw_gated_linear__generic_reference = {plan_gated_linear, run_gated_linear};
