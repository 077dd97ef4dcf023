/* Functions of vectors under test: y[0 .. count) of x, count a multiple of 16. */
#ifndef FUNCTIONS_H
#define FUNCTIONS_H

#include <stdint.h>

typedef void (*vector_function)(const float *x, float *y, int64_t count);
typedef struct {
    vector_function exp_nonpositive, exp2_nonpositive, erfc;
} functions;

extern const functions functions_generic;
#ifdef EB_BUILD_AVX2
extern const functions functions_avx2, functions_avx512;
#endif
#ifdef EB_BUILD_NEON
extern const functions functions_neon;
#endif

#endif
