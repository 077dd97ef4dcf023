/* The same with sdot, which multiplies 4 quads. */
#include "../neon/isa.h"
#define EB_FLOAT_ISA neon
#include "../vector/quads.c"
