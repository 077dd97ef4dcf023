/* The same with vdpbf16ps, which multiplies 16 pairs. */
#include "../avx512/isa.h"
#define EB_FLOAT_ISA avx512
#include "../vector/conv_bfloat.c"
