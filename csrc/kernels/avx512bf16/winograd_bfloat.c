/* Winograd convolutions in bfloat16: winograd.h. Both factors of the convolution are rounded to bfloat16, as the arithmetic says, and
 * the products of their transforms are those of floats. They are four times fewer than those of the direct sum, so they take less
 * time than direct products of pairs (bfloat.h), which are two in one instruction at most.
 *
 * Transforms that are rounded to bfloat16 would halve the time of the products again. They are not rounded, because sums would
 * have errors that a convolution in bfloat16 has not: docs/kernels.md has the numbers. */
enum { WINOGRAD_BFLOAT = 1 };

#include "../avx512/isa.h"
#define EB_FLOAT_ISA avx512
#include "../vector/winograd.h"

EB_WINOGRAD(2, EB_PASTE(bd16_bf16w_conv, __, EB_ISA, _, winograd2, ), "bfloat_winograd2")
EB_WINOGRAD(4, EB_PASTE(bd16_bf16w_conv, __, EB_ISA, _, winograd4, ), "bfloat_winograd4")
