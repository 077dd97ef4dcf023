/* Every kernel of the registry against the reference kernels: `test_kernels [no-fork]`; timed: `test_kernels bench
 * ISA [PART OF A NAME]` (bench.c). */
#include <stdio.h>
#include <string.h>

#include "suite.h"

/* The least that stands in for OpenBLAS, so that its kernel is tested where the package is not installed. */
static void plain_sgemm(int order, int transpose_a, int transpose_b, int M, int N, int K, float alpha, const float *a, int lda,
                        const float *b, int ldb, float beta, float *c, int ldc) {
    if (order != 101 || transpose_a != 111) fail("sgemm called with order %d, transpose %d", order, transpose_a);
    for (int m = 0; m < M; m++)
        for (int n = 0; n < N; n++) {
            double sum = 0;
            for (int k = 0; k < K; k++)
                sum += (double)a[(int64_t)m * lda + k] * b[transpose_b == 112 ? (int64_t)n * ldb + k : (int64_t)k * ldb + n];
            c[(int64_t)m * ldc + n] = (float)(alpha * sum + beta * c[(int64_t)m * ldc + n]);
        }
}

/* A kernel that no case reached would be untested. Ops with a reference kernel alone are tested from Python. */
static void check_coverage(void) {
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (runs_here(k) && strcmp(info.variant, "reference") != 0 && kernel_runs[k] == 0) fail("%s took no case", info.name);
    }
}

int main(int arguments, char **argument) {
    if (arguments > 1 && strcmp(argument[1], "bench") == 0) {
        bench(arguments > 2 ? argument[2] : "generic", arguments > 3 ? argument[3] : "");
        return 0;
    }
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int) = plain_sgemm;
    void *pointer;
    memcpy(&pointer, &sgemm, sizeof pointer);
    eb_set_sgemm(pointer);
    /* qemu-user itself fails when a process with threads forks. */
    test_pool(!(arguments > 1 && strcmp(argument[1], "no-fork") == 0));
    test_threads();
    test_isas();
    test_measure();
    test_linear();
    test_gated_linear();
    test_matmul();
    test_attention();
    test_images();
    test_expand();
    test_rows();
    test_pointwise();
    test_accuracy();
    test_reduce();
    test_move();
    test_spatial();
    test_limits();
    test_heads();
    test_selective_scan();
    test_micro();
    check_coverage();
    printf("%ld cases, %ld runs of kernels, %ld failures\n", total.cases, total.runs, total.failures);
    return total.failures != 0;
}
