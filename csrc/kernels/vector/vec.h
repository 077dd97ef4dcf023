/* Vectors of floats as wide as the instruction set, through the vector extensions of GCC and clang. The kernels of this
 * folder are written once against these few names. The build defines EB_ISA, the name in kernel symbols, and includes
 * csrc/kernels/<isa>/isa.h in front of each file, which sets
 *   EB_VL     floats in a vector
 *   EB_MR     most rows of a GEMM micro-tile; its columns are two vectors
 */
#ifndef EB_VEC_H
#define EB_VEC_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#include "../../engine.h"
#include "../../iterate.h"

enum { EB_NR = 2 * EB_VL }; /* columns of a micro-tile, and of a panel (gemm.h) */

typedef float vf __attribute__((vector_size(EB_VL * 4)));
typedef int32_t vi __attribute__((vector_size(EB_VL * 4)));
typedef uint32_t vu __attribute__((vector_size(EB_VL * 4)));
typedef float vh __attribute__((vector_size(EB_VL * 2)));   /* half the lanes, */
typedef double vd __attribute__((vector_size(EB_VL * 4)));  /* as doubles */
typedef int64_t vl __attribute__((vector_size(EB_VL * 4))); /* and their bits */
typedef uint64_t vul __attribute__((vector_size(EB_VL * 4)));
typedef float vf_unaligned __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));
typedef float eb_float_unaligned __attribute__((aligned(1), may_alias)); /* weights in a file lie anywhere */

#define EB_INLINE static inline __attribute__((always_inline))
/* Before a loop of constant length over an array of vectors: unrolled in full, or the array would live in memory. */
#if defined(__clang__)
#define EB_UNROLL _Pragma("clang loop unroll(full)")
#else
#define EB_UNROLL _Pragma("GCC unroll 32")
#endif
/* Before a loop over elements of which each is read before it is written, if it is written at all: an output in place of
 * an input is no obstacle to vectors. */
#if defined(__clang__)
#define EB_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EB_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define EB_PASTE_(a, b, c, d, e, f) a##b##c##d##e##f
#define EB_PASTE(a, b, c, d, e, f) EB_PASTE_(a, b, c, d, e, f)
#define EB_TEXT_(name) #name
#define EB_TEXT(name) EB_TEXT_(name)
/* f32_<op>__<isa>_<variant>: the symbol of a kernel of signature f32; kernels of other signatures write theirs out. */
#define EB_SYMBOL(op, variant) EB_PASTE(f32_, op, __, EB_ISA, _, variant)

EB_INLINE vf vf_set(float v) { return v - (vf){0}; } /* - 0 keeps -0.0, + 0 would not */
EB_INLINE vi vi_set(int32_t v) { return v + (vi){0}; }
EB_INLINE vd vd_set(double v) { return v - (vd){0}; }
EB_INLINE vf vf_load(const void *p) { return *(const vf_unaligned *)p; }
EB_INLINE void vf_store(float *p, vf v) { *(vf_unaligned *)p = v; }

/* The first `count` floats, the rest zero; and the reverse. 0 <= count <= EB_VL. */
EB_INLINE vf vf_load_part(const float *p, int64_t count) {
    vf v = {0};
    memcpy(&v, p, (size_t)count * 4);
    return v;
}
EB_INLINE void vf_store_part(float *p, vf v, int64_t count) { memcpy(p, &v, (size_t)count * 4); }

/* EB_VL signed bytes as floats. GCC 12 converts vectors of bytes one by one. */
EB_INLINE vf vf_load_bytes(const void *p) {
#if defined(__AVX512F__) && EB_VL == 16
    const vi wide = (vi)_mm512_cvtepi8_epi32(_mm_loadu_si128(p));
#elif defined(__AVX2__) && EB_VL == 8
    const vi wide = (vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64(p));
#elif defined(__SSE2__) && EB_VL == 4
    int32_t bytes;
    memcpy(&bytes, p, 4);
    const __m128i twice = _mm_unpacklo_epi8(_mm_cvtsi32_si128(bytes), _mm_cvtsi32_si128(bytes));
    const vi wide = (vi)_mm_srai_epi32(_mm_unpacklo_epi16(twice, twice), 24);
#elif defined(__ARM_NEON) && EB_VL == 4
    int32_t bytes;
    memcpy(&bytes, p, 4);
    const vi wide = (vi)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(bytes)))));
#else
    vi wide;
    for (int i = 0; i < EB_VL; i++) wide[i] = ((const int8_t *)p)[i];
#endif
    return __builtin_convertvector(wide, vf);
}

/* mask ? a : b, lane by lane; a mask is what a comparison answers. */
EB_INLINE vi vi_select(vi mask, vi a, vi b) { return (mask & a) | (~mask & b); }
#if defined(__AVX__) && EB_VL == 8 /* one instruction, which GCC does not find by itself */
EB_INLINE vf vf_select(vi mask, vf a, vf b) { return (vf)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask); }
#else
EB_INLINE vf vf_select(vi mask, vf a, vf b) { return (vf)vi_select(mask, (vi)a, (vi)b); }
#endif
EB_INLINE vd vd_select(vl mask, vd a, vd b) { return (vd)((mask & (vl)a) | (~mask & (vl)b)); }

/* The larger (smaller); b where either is NaN, as the x86 instructions answer. GCC does not find them by itself.
 * vi_any: whether a mask has a lane set. vf_widen: the halves as doubles; vf_narrow: back, each rounded to float. */
#if defined(__AVX512F__) && EB_VL == 16
EB_INLINE vf vf_max(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
EB_INLINE vf vf_min(vf a, vf b) { return (vf)_mm512_min_ps((__m512)a, (__m512)b); }
EB_INLINE vf vf_sqrt(vf a) { return (vf)_mm512_sqrt_ps((__m512)a); }
EB_INLINE void vf_stream(float *p, vf v) { _mm512_stream_ps(p, (__m512)v); }
EB_INLINE int vi_any(vi mask) { return _mm512_movepi32_mask((__m512i)mask) != 0; }
EB_INLINE void vf_widen(vf v, vd *low, vd *high) {
    *low = (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
    *high = (vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)v, 1));
}
EB_INLINE vf vf_narrow(vd low, vd high) {
    __m512 half = _mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low));
    return (vf)_mm512_insertf32x8(half, _mm512_cvtpd_ps((__m512d)high), 1);
}
#elif defined(__AVX2__) && EB_VL == 8
EB_INLINE vf vf_max(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
EB_INLINE vf vf_min(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
EB_INLINE vf vf_sqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
EB_INLINE void vf_stream(float *p, vf v) { _mm256_stream_ps(p, (__m256)v); }
EB_INLINE int vi_any(vi mask) { return _mm256_movemask_ps((__m256)mask) != 0; }
EB_INLINE void vf_widen(vf v, vd *low, vd *high) {
    *low = (vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)v));
    *high = (vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)v, 1));
}
EB_INLINE vf vf_narrow(vd low, vd high) {
    return (vf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
}
#elif defined(__SSE2__) && EB_VL == 4
EB_INLINE vf vf_max(vf a, vf b) { return (vf)_mm_max_ps((__m128)a, (__m128)b); }
EB_INLINE vf vf_min(vf a, vf b) { return (vf)_mm_min_ps((__m128)a, (__m128)b); }
EB_INLINE vf vf_sqrt(vf a) { return (vf)_mm_sqrt_ps((__m128)a); }
EB_INLINE void vf_stream(float *p, vf v) { _mm_stream_ps(p, (__m128)v); }
EB_INLINE int vi_any(vi mask) { return _mm_movemask_ps((__m128)mask) != 0; }
EB_INLINE void vf_widen(vf v, vd *low, vd *high) {
    *low = (vd)_mm_cvtps_pd((__m128)v);
    *high = (vd)_mm_cvtps_pd(_mm_movehl_ps((__m128)v, (__m128)v));
}
EB_INLINE vf vf_narrow(vd low, vd high) {
    return (vf)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low), _mm_cvtpd_ps((__m128d)high));
}
#else
EB_INLINE vf vf_max(vf a, vf b) { return vf_select(a > b, a, b); }
EB_INLINE vf vf_min(vf a, vf b) { return vf_select(a < b, a, b); }
EB_INLINE vf vf_sqrt(vf a) {
    for (int i = 0; i < EB_VL; i++) a[i] = sqrtf(a[i]);
    return a;
}
EB_INLINE void vf_stream(float *p, vf v) { vf_store(p, v); }
EB_INLINE int vi_any(vi mask) {
    uint64_t pairs[EB_VL / 2], all = 0;
    memcpy(pairs, &mask, sizeof pairs);
    for (int i = 0; i < EB_VL / 2; i++) all |= pairs[i];
    return all != 0;
}
EB_INLINE void vf_widen(vf v, vd *low, vd *high) {
    vh halves[2];
    memcpy(halves, &v, sizeof halves);
    *low = __builtin_convertvector(halves[0], vd);
    *high = __builtin_convertvector(halves[1], vd);
}
EB_INLINE vf vf_narrow(vd low, vd high) {
    const vh halves[2] = {__builtin_convertvector(low, vh), __builtin_convertvector(high, vh)};
    vf v;
    memcpy(&v, halves, sizeof v);
    return v;
}
#endif
/* Floats in memory as doubles, half of a vector of them. GCC 12 converts a vector of halves in two parts. */
EB_INLINE vd vd_load_floats(const float *p) {
#if defined(__AVX512F__) && EB_VL == 16
    return (vd)_mm512_cvtps_pd(_mm256_loadu_ps(p));
#elif defined(__AVX2__) && EB_VL == 8
    return (vd)_mm256_cvtps_pd(_mm_loadu_ps(p));
#else
    vh v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, vd);
#endif
}
/* Lane i is lane index[i] of v; indices from 0 to EB_VL - 1. */
#if defined(__AVX512F__) && EB_VL == 16
EB_INLINE vf vf_permute(vf v, vi index) { return (vf)_mm512_permutexvar_ps((__m512i)index, (__m512)v); }
#elif defined(__AVX2__) && EB_VL == 8
EB_INLINE vf vf_permute(vf v, vi index) { return (vf)_mm256_permutevar8x32_ps((__m256)v, (__m256i)index); }
#else
EB_INLINE vf vf_permute(vf v, vi index) {
    vf found;
    for (int i = 0; i < EB_VL; i++) found[i] = v[index[i]];
    return found;
}
#endif
/* vf_stream: a store past the caches where the machine has one (stream.h), to an address aligned to the vector. */
/* The larger (smaller); NaN where either is. */
EB_INLINE vf vf_maximum(vf a, vf b) { return vf_select(a != a, a, vf_max(a, b)); }
EB_INLINE vf vf_minimum(vf a, vf b) { return vf_select(a != a, a, vf_min(a, b)); }
EB_INLINE vf vf_abs(vf a) { return (vf)((vi)a & 0x7fffffff); }
/* `a` with a minus where `sign` has one; for an `a` whose sign is that of `sign`, or that is zero. */
EB_INLINE vf vf_signed(vf a, vf sign) { return (vf)((vi)a | ((vi)sign & INT32_MIN)); }

/* Lanes 0 .. count - 1. */
EB_INLINE vi vf_first(int64_t count) {
    vi lane;
    for (int i = 0; i < EB_VL; i++) lane[i] = i;
    return lane < (int32_t)count;
}

#if EB_VL == 4
#define EB_LOW_HALVES 0, 4, 1, 5
#define EB_HIGH_HALVES 2, 6, 3, 7
#elif EB_VL == 8
#define EB_LOW_HALVES 0, 8, 1, 9, 2, 10, 3, 11
#define EB_HIGH_HALVES 4, 12, 5, 13, 6, 14, 7, 15
#elif EB_VL == 16
#define EB_LOW_HALVES 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define EB_HIGH_HALVES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#endif
#if defined(__clang__)
#define EB_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define EB_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (vi){__VA_ARGS__})
#endif

/* Transpose EB_VL rows: log2(EB_VL) rounds, each interleaving row i with row i + EB_VL / 2. */
EB_INLINE void vf_transpose(vf *rows) {
    vf next[EB_VL];
    EB_UNROLL
    for (int round = 1; round < EB_VL; round *= 2) {
        EB_UNROLL
        for (int i = 0; i < EB_VL / 2; i++) {
            next[2 * i] = EB_SHUFFLE(rows[i], rows[i + EB_VL / 2], EB_LOW_HALVES);
            next[2 * i + 1] = EB_SHUFFLE(rows[i], rows[i + EB_VL / 2], EB_HIGH_HALVES);
        }
        EB_UNROLL
        for (int i = 0; i < EB_VL; i++) rows[i] = next[i];
    }
}

EB_INLINE float vf_sum(vf v) {
    float lanes[EB_VL];
    memcpy(lanes, &v, sizeof lanes);
    for (int width = EB_VL / 2; width; width /= 2)
        for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
    return lanes[0];
}
/* Largest lane; lanes that are NaN do not count. */
EB_INLINE float vf_largest(vf v) {
    float lanes[EB_VL];
    memcpy(lanes, &v, sizeof lanes);
    float top = -INFINITY;
    for (int i = 0; i < EB_VL; i++) top = lanes[i] > top ? lanes[i] : top;
    return top;
}

#endif
