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
EB_INLINE uint32_t f32_of_half(uint32_t v) {
    uint32_t size = v & 0x7fff, bits = (size << 13) + 0x38000000;
    bits = size < 0x400 ? bits_of(float_of(0x3f000000 + (size & 0x3ff)) - 0.5f) : bits;
    bits = size >= 0x7c00 ? 0x7f800000 | size << 13 : bits;
    bits = size > 0x7c00 ? bits | 0x400000 : bits;
    return (v & 0x8000) << 16 | bits;
}

#endif
