/* quantize_rows: each row is read twice, for its largest magnitude and to be rounded. Plain loops, which compilers turn into
 * vectors. Compiled without contraction (CMakeLists.txt). */
#include "floats16.h"
#include "gemm.h"

typedef struct {
    int64_t rows, K, x_row, y_row, scale_row;
} quantisation;
EB_NODE_PLAN(quantisation)

static eb_status plan(eb_node *node) {
    enum { WORTH = 128 * 1024 }; /* elements: about 10 microseconds */
    const eb_tensor *x = eb_input(node, EB_IN_QUANTIZE_ROWS_X), *y = eb_output(node), *scale = y + 1;
    quantisation *q = edit_quantisation(node);
    q->rows = eb_size(scale);
    q->K = x->shape[x->rank - 1];
    if (!rows_of(x, &q->x_row) || !unit_columns(x)) return EB_NEEDS_DENSE;
    if (!rows_of(y, &q->y_row) || !unit_columns(y) || !rows_of(scale, &q->scale_row)) return EB_NOT_APPLICABLE;
    node->tiles = eb_min(q->rows, eb_max(1, q->rows * q->K / WORTH));
    return EB_OK;
}

/* As integers, magnitudes have the order of their floats; infinities and NaN are above all others. */
static int32_t find_largest(const float *x, int64_t K) {
    const bits32 *bits = (const bits32 *)x;
    int32_t most = 0;
    for (int64_t k = 0; k < K; k++) {
        const int32_t magnitude = (int32_t)(bits[k] & 0x7fffffff);
        most = magnitude > most ? magnitude : most;
    }
    return most;
}

/* The sum with 1.5 * 2^23 is rounded to a whole number, half to even, whose low bits are those of the integer. */
static void round_row(const float *x, float inverse, int64_t K, int8_t *y) {
    for (int64_t k = 0; k < K; k++) y[k] = (int8_t)bits_of(x[k] * inverse + 0x1.8p23f);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const quantisation *q = quantisation_of(node);
    const float *x = eb_data(eb_input(node, EB_IN_QUANTIZE_ROWS_X), bases);
    int8_t *y = eb_data(eb_output(node), bases);
    float *scales = eb_data(eb_output(node) + 1, bases);
    for (int64_t m = eb_piece(q->rows, node->tiles, begin); m < eb_piece(q->rows, node->tiles, end); m++) {
        const int32_t largest = find_largest(x + m * q->x_row, q->K);
        const float scale = fmaxf(float_of((uint32_t)largest) / 127, 0x1p-126f);
        scales[m * q->scale_row] = largest < 0x7f800000 ? scale : NAN;
        if (largest < 0x7f800000)
            round_row(x + m * q->x_row, 1 / scale, q->K, y + m * q->y_row);
        else
            memset(y + m * q->y_row, 0, (size_t)q->K);
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(quantize_rows, vector) = {plan, run};
