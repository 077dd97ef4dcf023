/* linear by OpenBLAS's sgemm, called single-threaded inside of our tiles. The rival of the packed kernels. */
#include <stdatomic.h>
#include <string.h>

#include "../vector/activation.h"

/* cblas_sgemm: order, transposes, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc. */
typedef void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112, TILE_ROWS = 128, TILE_COLUMNS = 256 };

static _Atomic(sgemm) function;

void eb_set_sgemm(void *cblas_sgemm) {
    sgemm given;
    memcpy(&given, &cblas_sgemm, sizeof given); /* ISO C has no cast between data and function pointers */
    atomic_store(&function, given);
}

typedef struct {
    int64_t M, N, K;
} sizes;
EB_NODE_PLAN(sizes)

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_LINEAR_X), *y = eb_output(node);
    if (!atomic_load(&function) || eb_input(node, EB_IN_LINEAR_WEIGHT)->is_packed) return EB_NOT_APPLICABLE;
    for (int i = 0; i < node->n_inputs; i++)
        if (eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    if (!eb_is_dense(y)) return EB_NOT_APPLICABLE;
    int64_t N = y->shape[y->rank - 1], K = x->shape[x->rank - 1], M = N ? eb_size(y) / N : 0;
    /* BLAS does not read x and the weight where alpha is 0: it would make 0 of 0 * NaN. */
    if ((float)node->reals[EB_REAL_LINEAR_ALPHA] == 0) return EB_NOT_APPLICABLE;
    if (K == 0 || M > INT32_MAX || N > INT32_MAX || K > INT32_MAX) return EB_NOT_APPLICABLE;
    *edit_sizes(node) = (sizes){M, N, K};
    node->tiles = eb_ceil_div(M, TILE_ROWS) * eb_ceil_div(N, TILE_COLUMNS);
    return EB_OK;
}

/* y = bias + residual, to which the product is added. The residual may lie where y lies. */
static void start_tile(float *y, const float *bias, const float *residual, int64_t rows, int64_t columns, int64_t ld) {
    for (int64_t m = 0; m < rows; m++)
        for (int64_t n = 0; n < columns; n++)
            y[m * ld + n] = (residual ? residual[m * ld + n] : 0) + (bias ? bias[n] : 0);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    sgemm multiply = atomic_load(&function);
    if (!multiply) return EB_NOT_APPLICABLE;
    int64_t M = sizes_of(node)->M, N = sizes_of(node)->N, K = sizes_of(node)->K;
    int transposed = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] != 0;
    const float *x = eb_data(eb_input(node, EB_IN_LINEAR_X), bases);
    const float *weight = eb_data(eb_input(node, EB_IN_LINEAR_WEIGHT), bases);
    const float *bias = eb_optional_data(node, EB_IN_LINEAR_BIAS, bases);
    const float *residual = eb_optional_data(node, EB_IN_LINEAR_RESIDUAL, bases);
    float *y = eb_data(eb_output(node), bases);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t blocks = eb_ceil_div(N, TILE_COLUMNS), m = tile / blocks * TILE_ROWS, n = tile % blocks * TILE_COLUMNS;
        int64_t rows = eb_min(TILE_ROWS, M - m), columns = eb_min(TILE_COLUMNS, N - n);
        float *target = y + m * N + n;
        start_tile(target, bias ? bias + n : NULL, residual ? residual + m * N + n : NULL, rows, columns, N);
        multiply(ROW_MAJOR, PLAIN, transposed ? TRANSPOSED : PLAIN, (int)rows, (int)columns, (int)K,
                 (float)node->reals[EB_REAL_LINEAR_ALPHA], x + m * K, (int)K, weight + (transposed ? n * K : n),
                 (int)(transposed ? K : N), 1, target, (int)N);
        eb_activation activation = activations[node->ints[EB_INT_LINEAR_ACTIVATION]];
        if (activation) activation(target, rows, columns, N);
    }
    return EB_OK;
}
const eb_kernel f32_linear__generic_openblas = {plan, run};
