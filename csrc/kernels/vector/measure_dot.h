/* The roof of a dot-product instruction of AVX-512: the including file names the type and the instruction
 *   EB_DOT_WHAT              what eb_measure_roof calls the roof
 *   EB_DOT_SUM, EB_DOT_ZERO  vector of sums, and one of zeros
 *   EB_DOT(sum, a, b)        the instruction
 *   EB_DOT_OPERATIONS        multiplications and additions that one instruction does
 * 16 sums cover the latency of 5 or 6 cycles at two instructions a cycle. In the disassembly: 16 dot products a round. */
#include <stdint.h>

#include "../../measure.h"
#include "vec.h"

enum { SUMS = 16 };

/* Operations of `rounds` rounds; *sink is what is multiplied. Nothing takes a sum's address: it would live in memory. */
static double compute(int64_t rounds, float *sink) {
    EB_DOT_SUM sum[SUMS];
    __m512i factor = (__m512i)vf_set(*sink);
    EB_UNROLL
    for (int c = 0; c < SUMS; c++) sum[c] = EB_DOT_ZERO();
    for (int64_t i = 0; i < rounds; i++) {
        EB_UNROLL
        for (int c = 0; c < SUMS; c++) sum[c] = EB_DOT(sum[c], factor, factor);
        EB_UNROLL
        for (int c = 0; c < SUMS; c++) __asm__ volatile("" : "+v"(sum[c]));
    }
    return (double)EB_DOT_OPERATIONS * SUMS * (double)rounds;
}

const eb_roof_loop EB_PASTE(eb_dot_, EB_ISA, , , , ) = {EB_DOT_WHAT, EB_TEXT(EB_ISA), .compute = compute,
                                                        .per_instruction = EB_DOT_OPERATIONS};
