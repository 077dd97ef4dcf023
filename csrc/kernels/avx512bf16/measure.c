/* vdpbf16ps: 32 products of bfloat16, added in pairs to 16 floats. */
#include "../avx512/isa.h"
#define EB_DOT_WHAT "bf16"
#define EB_DOT_SUM __m512
#define EB_DOT_ZERO _mm512_setzero_ps
#define EB_DOT(sum, a, b) _mm512_dpbf16_ps(sum, (__m512bh)(a), (__m512bh)(b))
#define EB_DOT_OPERATIONS 64
#include "../vector/measure_dot.h"
