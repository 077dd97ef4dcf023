/* The same with vpdpbusd, which multiplies 8 quads. */
#include "../avx2/isa.h"
#define EB_FLOAT_ISA avx2
#include "../vector/linear_quads.c"
