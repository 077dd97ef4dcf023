/* The same kernels, timed: `test_kernels bench [part of a kernel's name]`. The best of interleaved repeats, one thread.
 * Prints one line a shape and kernel: tab-separated kernel, shape, microseconds, GFLOP/s, GB/s, share of the roof. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "case.h"
#include "suite.h"

/* Time of this thread on a core: other processes that push it aside do not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { MOST_KERNELS = 16, ROUNDS = 12 };

/* Time all kernels of the case's op in turn, ROUNDS times round. */
static void bench_case(test_case *c, double flops, const char *filter) {
    prepared p[MOST_KERNELS];
    int32_t ids[MOST_KERNELS];
    double best[MOST_KERNELS];
    int count = 0;
    for (int32_t k = 0; k < eb_kernel_count() && count < MOST_KERNELS; k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.op, c->op) != 0 || !runs_here(k) || !strstr(info.name, filter)) continue;
        if (strcmp(info.variant, "reference") == 0 && !strstr(filter, "reference")) continue;
        if (case_prepare(c, k, 1, &p[count]) != EB_OK) {
            prepared_free(&p[count]);
            continue;
        }
        ids[count] = k;
        best[count++] = 1e30;
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < count; i++) {
            int repeats = 1;
            for (double seconds = 0; seconds < 2e-3; repeats *= 2) {
                double start = now();
                for (int r = 0; r < repeats; r++) eb_run(&p[i].node, 0, 1, p[i].bases, 1, NULL, NULL);
                seconds = now() - start;
                if (seconds / repeats < best[i]) best[i] = seconds / repeats;
            }
        }
    }
    double bytes = 0;
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++)
        if (c->operands[i].dtype >= 0) bytes += (double)c->bytes[i];
    for (int i = 0; i < count; i++) {
        eb_kernel_info info = eb_kernel_describe(ids[i]);
        double roof = eb_measure_fma(info.isa, 0.02);
        printf("%s\t%s\t%.2f\t%.2f\t%.2f\t%.3f\n", info.name, c->name, 1e6 * best[i], flops / best[i] / 1e9,
               bytes / best[i] / 1e9, flops / best[i] / roof);
        fflush(stdout);
        prepared_free(&p[i]);
    }
    case_end(c);
}

static void bench_linear(const char *filter) {
    static const int64_t shapes[][3] = {{128, 768, 768}, {128, 768, 3072}, {128, 3072, 768}, {16, 768, 768},
                                        {16, 768, 3072}, {16, 3072, 768},  {1, 768, 768},    {1, 768, 3072},
                                        {4, 768, 3072},  {8, 384, 1536},   {128, 384, 384},  {128, 384, 1536},
                                        {512, 768, 768}, {32, 1024, 4096}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t M = shapes[i][0], K = shapes[i][1], N = shapes[i][2];
        test_case c;
        make_linear(&c, M, N, K, DENSE, 1, EB_LINEAR_ACTIVATION_NONE);
        c.constant = 2;
        snprintf(c.name, sizeof c.name, "%ld x %ld x %ld", (long)M, (long)K, (long)N);
        bench_case(&c, 2.0 * (double)(M * N * K), filter);
    }
    test_case c;
    make_linear(&c, 128, 3072, 768, DENSE, 1, EB_LINEAR_ACTIVATION_GELU);
    c.constant = 2;
    snprintf(c.name, sizeof c.name, "128 x 768 x 3072 gelu");
    bench_case(&c, 2.0 * 128 * 768 * 3072, filter);
}

static void bench_gated_linear(const char *filter) {
    static const int64_t shapes[][3] = {{128, 1024, 3072}, {16, 1024, 3072}, {1, 1024, 3072}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t M = shapes[i][0], K = shapes[i][1], N = shapes[i][2];
        test_case c;
        make_gated_linear(&c, M, N, K, DENSE, 1, 0);
        c.ints[EB_INT_GATED_LINEAR_ACTIVATION] = EB_GATED_LINEAR_ACTIVATION_SILU;
        c.constant = 2;
        snprintf(c.name, sizeof c.name, "%ld x %ld x 2 * %ld silu", (long)M, (long)K, (long)N);
        bench_case(&c, 4.0 * (double)(M * N * K), filter);
    }
}

static void bench_attention(const char *filter) {
    static const attention_shape shapes[] = {
        {1, 12, 12, 128, 128, 64, 64, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 256, 256, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 384, 384, 64, 64, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 512, 512, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 1024, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE}, {1, 12, 12, 128, 128, 64, 64, NO_MASK, 1, 1, 0, DENSE},
        {1, 12, 12, 512, 512, 64, 64, NO_MASK, 1, 1, 0, DENSE},   {1, 12, 12, 128, 128, 64, 64, BOOL_KEYS, 0, 1, 0, DENSE},
        {1, 12, 12, 128, 128, 64, 64, BOOL_FULL, 0, 1, 0, DENSE}, {1, 12, 12, 128, 128, 64, 64, FLOAT_FULL, 0, 1, 0, DENSE},
        {1, 12, 12, 384, 384, 32, 32, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 384, 384, 128, 128, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 384, 384, 256, 256, NO_MASK, 0, 1, 0, DENSE}, {1, 12, 12, 16, 16, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 1, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},    {1, 12, 12, 4, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 8, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},    {1, 12, 12, 1, 8192, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 16, 8, 1, 1024, 128, 128, NO_MASK, 0, 1, 0, DENSE},   {1, 16, 8, 1, 8192, 128, 128, NO_MASK, 0, 1, 0, DENSE}, {1, 8, 8, 1, 8192, 128, 128, NO_MASK, 0, 1, 0, DENSE},{1, 8, 4, 1, 16384, 64, 64, NO_MASK, 0, 1, 0, DENSE}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        attention_shape s = shapes[i];
        test_case c;
        make_attention(&c, &s);
        if (s.mask == BOOL_KEYS || s.mask == BOOL_FULL) memset(c.data[3], 1, (size_t)c.bytes[3]);
        double pairs = s.causal ? (double)(s.S * (s.S + 1)) / 2 : (double)(s.S * s.T);
        snprintf(c.name, sizeof c.name, "%ld x %ld x %ld x %ld mask %d causal %d", (long)s.H, (long)s.S, (long)s.T, (long)s.D,
                 (int)s.mask, s.causal);
        bench_case(&c, 2.0 * (double)(s.B * s.H * (s.D + s.E)) * pairs, filter);
    }
}

static void bench_matmul(const char *filter) {
    static const int64_t shapes[][4] = {{128, 128, 64, 1}, {128, 64, 128, 0}, {512, 512, 512, 0}, {16, 768, 768, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t *s = shapes[i];
        test_case c;
        make_matmul(&c, s[0], s[1], s[2], 0, (int)s[3], 0, DENSE);
        snprintf(c.name, sizeof c.name, "6 x %ld x %ld x %ld transpose_b %ld", (long)s[0], (long)s[2], (long)s[1], (long)s[3]);
        bench_case(&c, 12.0 * (double)(s[0] * s[1] * s[2]), filter);
    }
}

/* Bound by memory: read the GB/s column. */
static void bench_streams(const char *filter) {
    static const char *const unary[] = {"gelu", "erf", "exp", "tanh", "silu", "relu"}, *const binary[] = {"add", "mul"};
    test_case c;
    for (int i = 0; i < 6; i++) {
        make_unary(&c, unary[i], 128, 3072, DENSE);
        bench_case(&c, 128 * 3072, filter);
    }
    for (int i = 0; i < 2; i++)
        for (int kind = 0; kind < 2; kind++) {
            make_binary(&c, binary[i], 128, 3072, 0, kind);
            bench_case(&c, 128 * 3072, filter);
        }
    make_norm(&c, "layer_norm", 64, 768, 1, DENSE);
    bench_case(&c, 8.0 * 128 * 768, filter);
    make_norm(&c, "rms_norm", 64, 768, 1, DENSE);
    bench_case(&c, 4.0 * 128 * 768, filter);
    make_softmax(&c, "softmax", 12 * 128, 128, 1, DENSE);
    bench_case(&c, 5.0 * 12 * 128 * 128, filter);
    static const char *const reductions[] = {"sum", "var", "amax", "prod"};
    for (int i = 0; i < 4; i++)
        for (int64_t axes = 1; axes < 8; axes++) {
            if (axes == 3 || axes == 5 || axes == 6) continue;
            make_reduction(&c, reductions[i], axes, 0, DENSE, (const int64_t[]){16, 1024, 1024});
            bench_case(&c, 16 << 20, filter);
        }
    make_reduction(&c, "any", 4, 0, DENSE, (const int64_t[]){64, 1024, 1024});
    bench_case(&c, 64 << 20, filter);
    for (int axis = 0; axis < 3; axis++) {
        make_arg(&c, "argmax", axis, 0, DENSE, (const int64_t[]){16, 1024, 1024});
        bench_case(&c, 16 << 20, filter);
        make_arg(&c, "cumsum", axis, 1, DENSE, (const int64_t[]){16, 1024, 1024});
        bench_case(&c, 16 << 20, filter);
    }
    make_arg(&c, "argmax", 2, 0, DENSE, (const int64_t[]){1, 1, 50257});
    bench_case(&c, 50257, filter);
    make_copy(&c, EB_F32, DENSE, SHAPE(768, 768));
    bench_case(&c, 0, filter);
    make_copy(&c, EB_F32, SWAPPED, SHAPE(768, 768));
    bench_case(&c, 0, filter);
}

void bench(const char *filter) {
    bench_linear(filter);
    bench_gated_linear(filter);
    bench_matmul(filter);
    bench_attention(filter);
    bench_streams(filter);
}
