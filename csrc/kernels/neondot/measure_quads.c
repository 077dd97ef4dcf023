/* The same of sdot. */
#include "../neon/isa.h"
#define EB_FLOAT_ISA neon
#include "../vector/measure_quads.c"
