/* The roof of products of bytes: what multiplies and adds them (quads.h), from registers. */
#include "../../measure.h"
#include "quads.h"

enum { SUMS = EB_VL == 16 ? 16 : 12, OPERATIONS = 2 * EB_VL * 4 / EB_PARTS }; /* operations: of one multiply-add */

/* Operations of `rounds` rounds; *sink is what is multiplied. */
static double compute(int64_t rounds, float *sink) {
    vu sum[SUMS], factor = (vu)vf_set(*sink);
    EB_UNROLL
    for (int c = 0; c < SUMS; c++) sum[c] = (vu){0};
    for (int64_t i = 0; i < rounds; i++) {
        EB_UNROLL
        for (int c = 0; c < SUMS; c++) quad_multiply_add(&sum[c], sum[c], factor); /* not a product that all could share */
        EB_UNROLL
        for (int c = 0; c < SUMS; c++) __asm__ volatile("" : "+" EB_REGISTER(sum[c]));
    }
    return (double)OPERATIONS * SUMS * (double)rounds;
}

const eb_roof_loop EB_PASTE(eb_bytes_, EB_ISA, , , , ) = {"int8", EB_TEXT(EB_ISA), .compute = compute, .per_instruction = OPERATIONS};
