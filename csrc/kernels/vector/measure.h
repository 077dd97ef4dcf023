/* The FMA roof of one instruction set: as many independent chains of multiply-adds as registers hold. */
#include "vec.h"

/* Constraint of a vector register in inline assembly. */
#if defined(__aarch64__)
#define EB_REGISTER(v) "w"(v)
#elif defined(__x86_64__)
#define EB_REGISTER(v) "v"(v)
#else
#define EB_REGISTER(v) "m"(v)
#endif

enum { CHAINS = EB_MR * 2 };

/* Flops of `rounds` rounds; *sink keeps the compiler from dropping them. */
double EB_PASTE(eb_fma_, EB_ISA, , , , )(int64_t rounds, float *sink) {
    vf sum[CHAINS], scale = vf_set(0.5f), step = vf_set(*sink);
    EB_UNROLL
    for (int c = 0; c < CHAINS; c++) sum[c] = vf_set((float)c);
    for (int64_t i = 0; i < rounds; i++) {
        /* The chains meet a barrier a round, so that nothing is folded across rounds. */
        EB_UNROLL
        for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * scale + step;
        EB_UNROLL
        for (int c = 0; c < CHAINS; c++) __asm__ volatile("" : "+" EB_REGISTER(sum[c]));
    }
    vf total = sum[0];
    EB_UNROLL
    for (int c = 1; c < CHAINS; c++) total += sum[c];
    *sink = vf_sum(total);
    return 2.0 * EB_VL * CHAINS * (double)rounds;
}
