/* Casts between floats of 4 and 2 bytes, integers of 4 and 8, and bools; with the bits of the reference. */
#include "bfloat.h"
#include "runs.h"

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

/* A signalling NaN becomes a quiet one, as in every conversion of IEEE 754 and in bf16_of. */
EB_INLINE uint32_t f32_of_bf16(uint32_t v) { return (v & 0x7fff) > 0x7f80 ? v << 16 | 0x400000 : v << 16; }

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

#define CAST(name, from, to, value)                                                                                 \
    static void cast_##name(void *y, const void *x, const void *same, int64_t count, int64_t step, int64_t again) { \
        (void)same, (void)again;                                                                                    \
        to *target = y;                                                                                             \
        const from *source = x;                                                                                     \
        if (step)                                                                                                   \
            for (int64_t i = 0; i < count; i++) {                                                                   \
                from v = source[i];                                                                                 \
                target[i] = (to)(value);                                                                            \
            }                                                                                                       \
        else                                                                                                        \
            for (int64_t i = 0; i < count; i++) {                                                                   \
                from v = source[0];                                                                                 \
                target[i] = (to)(value);                                                                            \
            }                                                                                                       \
    }
/* What does not fit becomes the smallest integer, as in the reference. */
CAST(f32_i32, float, int32_t, v >= -0x1p31f && v < 0x1p31f ? v : INT32_MIN)
CAST(f32_i64, float, int64_t, v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : INT64_MIN)
CAST(f32_bool, float, uint8_t, v != 0)
CAST(i32_f32, int32_t, float, v)
CAST(i64_f32, int64_t, float, (double)v) /* through double, as the reference: it rounds twice beyond 2^53 */
CAST(i32_i64, int32_t, int64_t, v)
CAST(i64_i32, int64_t, int32_t, v)
CAST(i32_bool, int32_t, uint8_t, v != 0)
CAST(i64_bool, int64_t, uint8_t, v != 0)
CAST(bool_f32, uint8_t, float, v)
CAST(bool_i32, uint8_t, int32_t, v)
CAST(bool_i64, uint8_t, int64_t, v)
/* 16-bit floats, by their bits and without a branch: nearest, the even one of two; a NaN keeps what fits of its bits. */
CAST(bf16_f32, uint16_t, bits32, f32_of_bf16(v))
CAST(f32_bf16, bits32, uint16_t, bf16_of(v))
CAST(f16_f32, uint16_t, bits32, f32_of_half(v))
CAST(f32_f16, bits32, uint16_t, half_of(v))

static elementwise_function cast_of(int32_t from, int32_t to) {
    static const struct {
        int32_t from, to;
        elementwise_function function;
    } casts[] = {{EB_F32, EB_I32, cast_f32_i32},   {EB_F32, EB_I64, cast_f32_i64},   {EB_F32, EB_BOOL, cast_f32_bool},
                 {EB_I32, EB_F32, cast_i32_f32},   {EB_I64, EB_F32, cast_i64_f32},   {EB_I32, EB_I64, cast_i32_i64},
                 {EB_I64, EB_I32, cast_i64_i32},   {EB_I32, EB_BOOL, cast_i32_bool}, {EB_I64, EB_BOOL, cast_i64_bool},
                 {EB_BOOL, EB_F32, cast_bool_f32}, {EB_BOOL, EB_I32, cast_bool_i32}, {EB_BOOL, EB_I64, cast_bool_i64},
                 {EB_BF16, EB_F32, cast_bf16_f32}, {EB_F32, EB_BF16, cast_f32_bf16}, {EB_F16, EB_F32, cast_f16_f32},
                 {EB_F32, EB_F16, cast_f32_f16}};
    for (size_t i = 0; i < sizeof casts / sizeof casts[0]; i++)
        if (casts[i].from == from && casts[i].to == to) return casts[i].function;
    return NULL;
}

static eb_status plan_cast(eb_node *node) {
    return cast_of(eb_input(node, EB_IN_CAST_X)->dtype, eb_output(node)->dtype) ? plan_runs(node) : EB_NOT_APPLICABLE;
}
ELEMENTWISE_RUN(cast, cast_of(eb_input(n, EB_IN_CAST_X)->dtype, eb_output(n)->dtype))
const eb_kernel EB_ANY_SYMBOL(cast) = {plan_cast, run_cast};
