/* The kernels of the registry: `test_kernels [no-fork] [share=N]` compares them with the reference kernels at every case of
 * the list, or at one in N, and runs the tests that are more than that. Other programs on the list of cases: cases.c. */
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

static void run_tests(int with_fork, int share) {
    test_pool(with_fork);
    test_threads();
    test_isas();
    test_measure();
    test_packing();
    test_bits_of_rows();
    test_accuracy();
    test_limits();
    check_cases("", share);
    check_coverage();
}

int main(int arguments, char **argument) {
    const char *const program = arguments > 1 ? argument[1] : "", *const first = arguments > 2 ? argument[2] : "";
    if (strcmp(program, "bench") == 0) {
        bench(arguments > 2 ? first : "generic", arguments > 3 ? argument[3] : "");
        return 0;
    }
    if (strcmp(program, "list") == 0) {
        list_cases(first);
        return total.failures != 0;
    }
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int) = plain_sgemm;
    void *pointer;
    memcpy(&pointer, &sgemm, sizeof pointer);
    eb_set_sgemm(pointer);
    if (strcmp(program, "check") == 0) {
        check_cases(first, 1);
    } else {
        int with_fork = 1, share = 1; /* qemu-user itself fails when a process with threads forks */
        for (int i = 1; i < arguments; i++)
            if (strcmp(argument[i], "no-fork") == 0)
                with_fork = 0;
            else if (sscanf(argument[i], "share=%d", &share) != 1 || share < 1)
                return fprintf(stderr, "%s: expected no-fork or share=N\n", argument[i]), 2;
        run_tests(with_fork, share);
    }
    printf("%ld cases, %ld runs of kernels, %ld failures\n", total.cases, total.runs, total.failures);
    return total.failures != 0;
}
