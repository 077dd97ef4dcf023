/* Combining elements with what is there, in sums wider than they are: double for floats, 64 bits for integers. */
#ifndef EB_COMBINE_H
#define EB_COMBINE_H

#include <math.h>

#include "../../ops.h"
#include "positions.h"

enum { SUM_SIZE = 8 }; /* bytes */

typedef struct {
    /* `count` sums with as many values. */
    void (*row)(void *sums, const void *values, int64_t count);
    /* The sums at positions, `step` sums apart, with the values of a run, one after the other. Returns 0 if a position is
     * outside of `size`. */
    int (*elements)(const run_of_positions *m, const int64_t *index, int64_t count, int64_t size, int64_t step);
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
    static int how##_elements_##name(const run_of_positions *m, const int64_t *index, int64_t count, int64_t size,     \
                                     int64_t step) {                                                                   \
        const int64_t to_step = m->to_step, from_step = m->from_step;                                                  \
        const type *from = (const type *)m->from;                                                                      \
        wide *to = (wide *)m->to;                                                                                      \
        for (int64_t i = 0; i < count; i++, to += to_step, from += from_step) {                                        \
            if ((uint64_t)index[i] >= (uint64_t)size) return 0;                                                        \
            wide *at = to + index[i] * step;                                                                           \
            const wide kept = *at, given = (wide)*from;                                                                \
            *at = result;                                                                                              \
        }                                                                                                              \
        return 1;                                                                                                      \
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
