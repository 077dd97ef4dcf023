/* The same of vpdpbusd. */
#include "../avx2/isa.h"
#define EB_FLOAT_ISA avx2
#include "../vector/measure_quads.c"
