/* One element of any dtype, read and written through the widest type of its kind: double or int64.
 * The reference kernels compute in those and round once. */
#ifndef EB_ELEMENT_H
#define EB_ELEMENT_H

#include <math.h>
#include <string.h>

#include "../engine.h"
#include "../iterate.h"

enum { EB_REFERENCE_TILE = 4096 }; /* elements; a few tens of microseconds */

static inline int eb_is_real(int32_t dtype) { return dtype >= EB_F32 && dtype <= EB_BF16; }

static inline float eb_bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline uint32_t eb_float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

static inline double eb_from_half(uint16_t half) {
    int exponent = half >> 10 & 31, fraction = half & 1023;
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    if (exponent == 31 && fraction) return eb_bits_to_float(sign | 0x7fc00000 | (uint32_t)fraction << 13);
    double magnitude = exponent == 31  ? INFINITY
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(fraction + 1024, exponent - 25);
    return sign ? -magnitude : magnitude;
}

static inline uint16_t eb_to_half(double value) {
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value)) return (uint16_t)(sign | 0x7e00 | (eb_float_to_bits((float)value) >> 13 & 0x3ff));
    if (magnitude >= 65520) return (uint16_t)(sign | 0x7c00);
    int exponent;
    frexp(magnitude, &exponent);
    if (exponent < -13 || magnitude == 0) exponent = -13; /* denormal halves share the smallest normal's step */
    int units = (int)nearbyint(ldexp(magnitude, 11 - exponent)); /* a carry to 2048 runs on into the exponent */
    return (uint16_t)(sign | (units + ((exponent + 13) << 10)));
}

static inline double eb_from_bf16(uint16_t bits) { return eb_bits_to_float((uint32_t)bits << 16); }

static inline uint16_t eb_to_bf16(double value) {
    uint32_t bits = eb_float_to_bits((float)value);
    if (isnan(value)) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline double eb_load_real(int32_t dtype, const void *data, int64_t i) {
    switch (dtype) {
    case EB_F32: return ((const float *)data)[i];
    case EB_F64: return ((const double *)data)[i];
    case EB_F16: return eb_from_half(((const uint16_t *)data)[i]);
    default: return eb_from_bf16(((const uint16_t *)data)[i]);
    }
}

static inline void eb_store_real(int32_t dtype, void *data, int64_t i, double value) {
    switch (dtype) {
    case EB_F32: ((float *)data)[i] = (float)value; break;
    case EB_F64: ((double *)data)[i] = value; break;
    case EB_F16: ((uint16_t *)data)[i] = eb_to_half(value); break;
    default: ((uint16_t *)data)[i] = eb_to_bf16(value);
    }
}

static inline int64_t eb_load_int(int32_t dtype, const void *data, int64_t i) {
    switch (dtype) {
    case EB_I64: return ((const int64_t *)data)[i];
    case EB_I32: return ((const int32_t *)data)[i];
    case EB_I16: return ((const int16_t *)data)[i];
    case EB_I8: return ((const int8_t *)data)[i];
    default: return ((const uint8_t *)data)[i];
    }
}

static inline void eb_store_int(int32_t dtype, void *data, int64_t i, int64_t value) {
    switch (dtype) {
    case EB_I64: ((int64_t *)data)[i] = value; break;
    case EB_I32: ((int32_t *)data)[i] = (int32_t)value; break;
    case EB_I16: ((int16_t *)data)[i] = (int16_t)value; break;
    case EB_I8: ((int8_t *)data)[i] = (int8_t)value; break;
    case EB_U8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    default: ((uint8_t *)data)[i] = value != 0;
    }
}

/* A double as an integer: cut towards zero; what does not fit becomes the smallest one of 64 bits, or of 32 where the type
 * has fewer, as the x86 instructions do. */
static inline int64_t eb_real_to_int(int32_t dtype, double value) {
    double limit = dtype == EB_I64 ? 0x1p63 : 0x1p31;
    if (value >= -limit && value < limit) return (int64_t)value;
    return dtype == EB_I64 ? INT64_MIN : INT32_MIN;
}

/* Store a value of either kind: `real` if `is_real`, else `integer`. */
static inline void eb_store_any(int32_t dtype, void *data, int64_t i, int is_real, double real, int64_t integer) {
    if (eb_is_real(dtype))
        eb_store_real(dtype, data, i, is_real ? real : (double)integer);
    else if (dtype == EB_BOOL)
        ((uint8_t *)data)[i] = is_real ? real != 0 : integer != 0;
    else
        eb_store_int(dtype, data, i, is_real ? eb_real_to_int(dtype, real) : integer);
}

/* Coordinates of element `flat` of `t`. */
static inline void eb_coordinates(const eb_tensor *t, int64_t flat, int64_t *index) {
    for (int axis = t->rank - 1; axis >= 0; axis--) {
        index[axis] = flat % t->shape[axis];
        flat /= t->shape[axis];
    }
}

/* Where the element at `index` lies. */
static inline int64_t eb_offset_at(const eb_tensor *t, const int64_t *index) {
    int64_t offset = 0;
    for (int axis = 0; axis < t->rank; axis++) offset += index[axis] * t->stride[axis];
    return offset;
}

/* Lines of `t` along `axis`, and the coordinates where line number `line` of them begins. */
static inline int64_t eb_lines(const eb_tensor *t, int axis) {
    int64_t lines = 1;
    for (int a = 0; a < t->rank; a++) lines *= a == axis ? 1 : t->shape[a];
    return lines;
}
static inline void eb_line_start(const eb_tensor *t, int axis, int64_t line, int64_t *at) {
    for (int a = t->rank - 1; a >= 0; a--) {
        at[a] = a == axis ? 0 : line % t->shape[a];
        if (a != axis) line /= t->shape[a];
    }
}

/* Tiles over `count` units of `elements` each; tile t has units eb_piece(count, tiles, t) up to the next tile's first. */
static inline int64_t eb_tile_count(int64_t count, int64_t elements) {
    int64_t units = eb_max(1, EB_REFERENCE_TILE / eb_max(1, elements));
    return eb_ceil_div(count, units);
}

#endif
