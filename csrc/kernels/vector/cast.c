/* Casts between floats of 4 and 2 bytes, integers of 4 and 8, and bools; with the bits of the reference. */
#include "floats16.h"
#include "runs.h"

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
