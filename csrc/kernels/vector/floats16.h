/* Floats of 16 bits from and to floats of 32, by their bits and without a branch: nearest, half to even. */
#ifndef EB_FLOATS16_H
#define EB_FLOATS16_H

#include "vec.h"

typedef uint32_t bits32 __attribute__((may_alias)); /* a float's */

EB_INLINE float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
EB_INLINE uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

/* A signalling NaN becomes a quiet one, in this and in all others, as in every conversion of IEEE 754. */
EB_INLINE uint32_t f32_of_bf16(uint32_t v) { return (v & 0x7fff) > 0x7f80 ? v << 16 | 0x400000 : v << 16; }

/* A NaN keeps what fits of its bits. */
EB_INLINE uint32_t bf16_of(uint32_t v) {
    uint32_t rounded = (v + 0x7fff + (v >> 16 & 1)) >> 16, quiet = v >> 16 | 0x40;
    return (v & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
}

/* Normal halves by rounding the fraction off, whose carry runs on into the exponent; denormal ones by the sum with 1/2,
 * whose last bit is their unit. */
EB_INLINE uint32_t half_of(uint32_t v) {
    uint32_t size = v & 0x7fffffff, sign = v >> 16 & 0x8000;
    uint32_t half = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
    half = size < 0x38800000 ? bits_of(float_of(size < 0x38800000 ? size : 0) + 0.5f) - 0x3f000000 : half;
    half = size > 0x477fefff ? 0x7c00 : half; /* from 65520 on */
    half = size > 0x7f800000 ? 0x7e00 | (size >> 13 & 0x3ff) : half;
    return sign | half;
}
/* Rounded once: the float in between is rounded to odd, so that its last bit tells of all that is cut off. */
EB_INLINE uint32_t half_of_double(double v) {
    const float near = (float)v;
    const uint32_t odd = (bits_of(near) - (fabs(near) > fabs(v))) | (near != v);
    return half_of(near == near ? odd : bits_of(near));
}
EB_INLINE uint32_t f32_of_half(uint32_t v) {
    uint32_t size = v & 0x7fff, bits = (size << 13) + 0x38000000;
    bits = size < 0x400 ? bits_of(float_of(0x3f000000 + (size & 0x3ff)) - 0.5f) : bits;
    bits = size >= 0x7c00 ? 0x7f800000 | size << 13 : bits;
    bits = size > 0x7c00 ? bits | 0x400000 : bits;
    return (v & 0x8000) << 16 | bits;
}

/* EB_VL bfloat16 as floats, exactly. They lie anywhere in memory. */
EB_INLINE vf vf_load_bfloats(const void *p) {
#if defined(__AVX512F__) && EB_VL == 16
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16);
#elif defined(__AVX2__) && EB_VL == 8
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16);
#elif defined(__SSE2__) && EB_VL == 4
    return (vf)_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64(p));
#elif defined(__ARM_NEON) && EB_VL == 4
    uint16x4_t numbers;
    memcpy(&numbers, p, sizeof numbers);
    return (vf)vshlq_n_u32(vmovl_u16(numbers), 16);
#else
    uint16_t numbers[EB_VL];
    vu bits;
    memcpy(numbers, p, sizeof numbers);
    for (int i = 0; i < EB_VL; i++) bits[i] = (uint32_t)numbers[i] << 16;
    return (vf)bits;
#endif
}

/* EB_VL floats as bfloat16, as bf16_of. */
EB_INLINE void vf_store_bfloats(void *p, vf v) {
    const vu bits = (vu)v;
    const vu rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    const vu numbers = (vu)vi_select(v != v, (vi)quiet, (vi)rounded);
#if defined(__AVX512F__) && EB_VL == 16
    _mm256_storeu_si256(p, _mm512_cvtepi32_epi16((__m512i)numbers));
#elif defined(__AVX2__) && EB_VL == 8
    const __m256i pairs = _mm256_packus_epi32((__m256i)numbers, (__m256i)numbers);
    _mm_storeu_si128(p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(pairs, 8)));
#else
    uint16_t narrow[EB_VL];
    for (int i = 0; i < EB_VL; i++) narrow[i] = (uint16_t)numbers[i];
    memcpy(p, narrow, sizeof narrow);
#endif
}

/* EB_VL floats as halves, as half_of. */
EB_INLINE void vf_store_halves(void *p, vf v) {
#if defined(__AVX512F__) && EB_VL == 16
    _mm256_storeu_si256(p, _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__) && EB_VL == 8
    _mm_storeu_si128(p, _mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    uint16_t halves[EB_VL];
    for (int i = 0; i < EB_VL; i++) halves[i] = (uint16_t)half_of(((vu)v)[i]);
    memcpy(p, halves, sizeof halves);
#endif
}

/* EB_VL halves as floats, exactly. They lie anywhere in memory. */
EB_INLINE vf vf_load_halves(const void *p) {
#if defined(__AVX512F__) && EB_VL == 16
    return (vf)_mm512_cvtph_ps(_mm256_loadu_si256(p));
#elif defined(__F16C__) && EB_VL == 8
    return (vf)_mm256_cvtph_ps(_mm_loadu_si128(p));
#elif defined(__aarch64__) && EB_VL == 4
    uint16x4_t halves;
    memcpy(&halves, p, sizeof halves);
    return (vf)vcvt_f32_f16(vreinterpret_f16_u16(halves));
#else /* as f32_of_half */
#if defined(__SSE2__) && EB_VL == 4
    const vu v = (vu)_mm_unpacklo_epi16(_mm_loadl_epi64(p), _mm_setzero_si128());
#else
    uint16_t halves[EB_VL];
    vu v;
    memcpy(halves, p, sizeof halves);
    for (int i = 0; i < EB_VL; i++) v[i] = halves[i];
#endif
    const vu size = v & 0x7fff, wide = size << 13;
    const vf denormal = (vf)((size & 0x3ff) + 0x3f000000) - 0.5f;
    vi bits = vi_select(size < 0x400, (vi)denormal, (vi)(wide + 0x38000000));
    bits = vi_select(size >= 0x7c00, (vi)(wide | 0x7f800000), bits);
    bits |= (vi)(size > 0x7c00) & 0x400000;
    return (vf)(bits | (vi)((v & 0x8000) << 16));
#endif
}

#endif
