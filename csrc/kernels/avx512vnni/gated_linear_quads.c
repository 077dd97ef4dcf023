/* The same with vpdpbusd, which multiplies 16 quads. */
#include "../avx512/isa.h"
#define EB_FLOAT_ISA avx512
#include "../vector/gated_linear_quads.c"
