/* Combining elements with what is there, in sums wider than they are: double for floats, 64 bits for integers. */
#ifndef EB_COMBINE_H
#define EB_COMBINE_H

#include <math.h>

#include "../../ops.h"

enum { SUM_SIZE = 8 }; /* bytes */

typedef struct {
    /* `count` sums with as many values. */
    void (*row)(void *sums, const void *values, int64_t count);
    /* The sums at offsets[k] with the values at k * step, one after the other. */
    void (*elements)(void *sums, const void *values, const int64_t *offsets, int64_t count, int64_t step);
} combination;

typedef struct {
    void (*widen)(void *sums, const void *x, int64_t count);
    void (*narrow)(void *y, const void *sums, int64_t count);
    combination by[EB_SCATTER_REDUCE_AMIN + 1];
} combining;

/* `result` of `kept` and `given`, both of type `wide`. */
#define COMBINATION(name, type, wide, how, result)                                                                      \
    static void how##_row_##name(void *sums, const void *values, int64_t count) {                                      \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const wide kept = ((wide *)sums)[i], given = (wide)((const type *)values)[i];                              \
            ((wide *)sums)[i] = result;                                                                                \
        }                                                                                                              \
    }                                                                                                                  \
    static void how##_elements_##name(void *sums, const void *values, const int64_t *offsets, int64_t count, int64_t step) {\
        for (int64_t i = 0; i < count; i++) {                                                                          \
            wide *at = (wide *)sums + offsets[i];                                                                      \
            const wide kept = *at, given = (wide)((const type *)values)[i * step];                                     \
            *at = result;                                                                                              \
        }                                                                                                              \
    }
#define COMBINING(name, type, wide, added, multiplied)                                                                 \
    static void widen_##name(void *sums, const void *x, int64_t count) {                                               \
        for (int64_t i = 0; i < count; i++) ((wide *)sums)[i] = (wide)((const type *)x)[i];                            \
    }                                                                                                                  \
    static void narrow_##name(void *y, const void *sums, int64_t count) {                                              \
        for (int64_t i = 0; i < count; i++) ((type *)y)[i] = (type)((const wide *)sums)[i];                            \
    }                                                                                                                  \
    COMBINATION(name, type, wide, sum, added)                                                                          \
    COMBINATION(name, type, wide, prod, multiplied)                                                                    \
    COMBINATION(name, type, wide, amax, kept != kept || kept > given ? kept : given)                                   \
    COMBINATION(name, type, wide, amin, kept != kept || kept < given ? kept : given)                                   \
    static const combining combining_##name = {                                                                        \
        widen_##name,                                                                                                  \
        narrow_##name,                                                                                                 \
        {[EB_SCATTER_REDUCE_SUM] = {sum_row_##name, sum_elements_##name},                                              \
         [EB_SCATTER_REDUCE_PROD] = {prod_row_##name, prod_elements_##name},                                           \
         [EB_SCATTER_REDUCE_AMAX] = {amax_row_##name, amax_elements_##name},                                           \
         [EB_SCATTER_REDUCE_AMIN] = {amin_row_##name, amin_elements_##name}}};
#define COMBINING_REALS(name, type) COMBINING(name, type, double, kept + given, kept * given)
#define COMBINING_INTEGERS(name, type)                                                                                 \
    COMBINING(name, type, int64_t, (int64_t)((uint64_t)kept + (uint64_t)given), (int64_t)((uint64_t)kept * (uint64_t)given))
COMBINING_REALS(f32, float)
COMBINING_REALS(f64, double)
COMBINING_INTEGERS(i64, int64_t)
COMBINING_INTEGERS(i32, int32_t)
COMBINING_INTEGERS(i16, int16_t)
COMBINING_INTEGERS(i8, int8_t)
COMBINING_INTEGERS(u8, uint8_t)

/* NULL for types that no kernel but the reference combines. */
static inline const combining *find_combining(int32_t dtype) {
    static const combining *const of[EB_BOOL + 1] = {
        [EB_F32] = &combining_f32, [EB_F64] = &combining_f64, [EB_I64] = &combining_i64, [EB_I32] = &combining_i32,
        [EB_I16] = &combining_i16, [EB_I8] = &combining_i8,   [EB_U8] = &combining_u8};
    return of[dtype];
}

#endif
