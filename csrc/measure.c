/* Roofs of this machine: fused multiply-adds and reading memory, on the calling thread. */
#include "engine.h"

#include <string.h>
#include <time.h>

#define EB_FMA(isa) double eb_fma_##isa(int64_t rounds, float *sink);
EB_FMA(generic)
#ifdef EB_BUILD_AVX2
EB_FMA(avx2)
EB_FMA(avx512)
#endif
#ifdef EB_BUILD_NEON
EB_FMA(neon)
#endif
#undef EB_FMA

static const struct {
    const char *isa;
    int32_t bit;
    double (*run)(int64_t rounds, float *sink);
} roofs[] = {
    {"generic", EB_ISA_GENERIC, eb_fma_generic},
#ifdef EB_BUILD_AVX2
    {"avx2", EB_ISA_AVX2, eb_fma_avx2},
    {"avx512", EB_ISA_AVX512, eb_fma_avx512},
#endif
#ifdef EB_BUILD_NEON
    {"neon", EB_ISA_NEON, eb_fma_neon},
#endif
};

enum { PARTS = 20 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of about twenty equal parts: a roof is what the machine can do when nothing disturbs it. 0 where this
 * machine or this build does not have `isa`. */
double eb_measure_fma(const char *isa, double at_least_seconds) {
    for (size_t i = 0; i < sizeof roofs / sizeof roofs[0]; i++) {
        if (strcmp(roofs[i].isa, isa) != 0 || !(eb_isa_mask() & roofs[i].bit)) continue;
        float sink = 1;
        int64_t rounds = 1000;
        double best = 0, start = now(), part = 0;
        while (now() - start < at_least_seconds || part == 0) {
            double begin = now(), flops = roofs[i].run(rounds, &sink), seconds = now() - begin;
            if (seconds < at_least_seconds / PARTS) {
                rounds *= 2;
                continue;
            }
            part = seconds;
            if (flops / seconds > best) best = flops / seconds;
        }
        return best;
    }
    return 0;
}

/* Sum of all 64-bit words: independent sums a line, so that the loads are what is waited for. */
static uint64_t read_all(const void *data, int64_t bytes) {
    typedef uint64_t line __attribute__((vector_size(64), aligned(8), may_alias));
    uint64_t total = 0;
    line sums[4] = {{0}};
    const char *p = data;
    for (; bytes >= 256; bytes -= 256, p += 256)
        for (int i = 0; i < 4; i++) sums[i] += *(const line *)(p + 64 * i);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 8; j++) total += sums[i][j];
    for (; bytes > 0; bytes--) total += (uint8_t)*p++;
    return total;
}

/* Make the compiler believe that `value` is needed. */
static inline void keep(uint64_t value) { __asm__ volatile("" : : "r"(value)); }

double eb_measure_read(const void *data, int64_t bytes, double at_least_seconds) {
    double best = 0, start = now();
    int64_t repeats = 1;
    do {
        double begin = now();
        for (int64_t i = 0; i < repeats; i++) keep(read_all(data, bytes));
        double seconds = now() - begin, rate = (double)bytes * (double)repeats / (seconds > 0 ? seconds : 1e-9);
        if (seconds < at_least_seconds / PARTS)
            repeats *= 2;
        else if (rate > best)
            best = rate;
    } while (now() - start < at_least_seconds || best == 0);
    return best;
}
