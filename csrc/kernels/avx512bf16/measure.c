/* The roof of vdpbf16ps: 32 products of bfloat16, added in pairs to 16 floats. 16 sums cover the latency of 5 or 6 cycles at two
 * instructions a cycle. In the disassembly: 16 dot products a round. */
#include <stdint.h>

#include "../avx512/isa.h"

#include "../../measure.h"
#include "../vector/vec.h"

enum { SUMS = 16, OPERATIONS = 64 };

/* Operations of `rounds` rounds; *sink is what is multiplied. Nothing takes a sum's address: it would live in memory. */
static double compute(int64_t rounds, float *sink) {
    __m512 sum[SUMS];
    const __m512bh factor = (__m512bh)vf_set(*sink);
    EB_UNROLL
    for (int c = 0; c < SUMS; c++) sum[c] = _mm512_setzero_ps();
    for (int64_t i = 0; i < rounds; i++) {
        EB_UNROLL
        for (int c = 0; c < SUMS; c++) sum[c] = _mm512_dpbf16_ps(sum[c], factor, factor);
        EB_UNROLL
        for (int c = 0; c < SUMS; c++) __asm__ volatile("" : "+v"(sum[c]));
    }
    return (double)OPERATIONS * SUMS * (double)rounds;
}

const eb_roof_loop eb_dot_avx512bf16 = {"bf16", "avx512bf16", .compute = compute, .per_instruction = OPERATIONS};
