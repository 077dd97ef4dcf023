/* The same of vpdpbusd. */
#include "../avx512/isa.h"
#define EB_FLOAT_ISA avx512
#include "../vector/measure_quads.c"
