/* Functions of vectors under test: y[0 .. count) of x, count a multiple of 16. */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include <stdint.h>

#include "isa_table.h"

typedef void (*vector_function)(const float *x, float *y, int64_t count);
typedef struct {
    vector_function exp_nonpositive, exp2_nonpositive, erfc;
} functions;

#define ROW(isa) extern const functions functions_##isa;
EB_VECTOR_ISAS(ROW)
#undef ROW

#endif
