/* vpdpbusd: 64 products of unsigned and signed bytes, added by fours to 16 integers. */
#include "../avx512/isa.h"
#define EB_DOT_WHAT "int8"
#define EB_DOT_SUM __m512i
#define EB_DOT_ZERO _mm512_setzero_si512
#define EB_DOT(sum, a, b) _mm512_dpbusd_epi32(sum, a, b)
#define EB_DOT_OPERATIONS 128
#include "../vector/measure_dot.h"
