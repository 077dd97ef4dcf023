/* Arithmetic and comparisons of integers of 4 and 8 bytes; bitwise ops of these and of bytes; logical ops of bools. Sums
 * and products wrap around. */
#include "runs.h"

/* LOOP(name, from, to, expression): y = expression of a and b, where one of the two may be a single value. The steps are
 * constants in each of the loops, or the compiler would make none of them a loop of vectors. */
#define LOOP(name, from, to, expression)                                                                            \
    EB_INLINE void loop_##name(to *y, const from *x, const from *z, int64_t count, const int a_step, const int b_step) { \
        EB_INDEPENDENT                                                                                              \
        for (int64_t i = 0; i < count; i++) {                                                                       \
            from a = x[i * a_step], b = z[i * b_step];                                                              \
            (void)b;                                                                                                \
            y[i] = (to)(expression);                                                                                \
        }                                                                                                           \
    }                                                                                                               \
    static void apply_##name(void *y, const void *a, const void *b, int64_t count, int64_t a_step, int64_t b_step) { \
        if (a_step && b_step)                                                                                       \
            loop_##name(y, a, b, count, 1, 1);                                                                      \
        else if (a_step)                                                                                            \
            loop_##name(y, a, b, count, 1, 0);                                                                      \
        else                                                                                                        \
            loop_##name(y, a, b, count, 0, b_step != 0);                                                            \
    }

/* Loops by the size of an element; NULL: none. Inputs all have one type; 0 is x or a. */
typedef struct {
    elementwise_function bytes, bools, words, longs;
} loops;

static elementwise_function loop_for(const eb_node *node, const loops *of) {
    int32_t dtype = eb_input(node, 0)->dtype;
    if (eb_input(node, node->n_inputs - 1)->dtype != dtype) return NULL;
    switch (dtype) {
    case EB_I32: return of->words;
    case EB_I64: return of->longs;
    case EB_BOOL: return of->bools;
    case EB_I8:
    case EB_U8: return of->bytes;
    default: return NULL;
    }
}

#define INTEGER_KERNEL(op, ...)                                                                                     \
    static const loops loops_##op = __VA_ARGS__;                                                                    \
    static eb_status plan_##op(eb_node *n) { return loop_for(n, &loops_##op) ? plan_runs(n) : EB_NOT_APPLICABLE; }  \
    ELEMENTWISE_RUN(op, loop_for(n, &loops_##op))                                                                   \
    const eb_kernel EB_ANY_SYMBOL(op) = {plan_##op, run_##op};

#define ARITHMETIC(op, word, long_, expression)    \
    LOOP(op##_words, word, word, expression)       \
    LOOP(op##_longs, long_, long_, expression)     \
    INTEGER_KERNEL(op, {.words = apply_##op##_words, .longs = apply_##op##_longs})
ARITHMETIC(add, uint32_t, uint64_t, a + b)
ARITHMETIC(sub, uint32_t, uint64_t, a - b)
ARITHMETIC(mul, uint32_t, uint64_t, a *b)
ARITHMETIC(maximum, int32_t, int64_t, a > b ? a : b)
ARITHMETIC(minimum, int32_t, int64_t, a < b ? a : b)

#define COMPARISON(op, expression)                \
    LOOP(op##_words, int32_t, uint8_t, expression) \
    LOOP(op##_longs, int64_t, uint8_t, expression) \
    INTEGER_KERNEL(op, {.words = apply_##op##_words, .longs = apply_##op##_longs})
COMPARISON(eq, a == b)
COMPARISON(ne, a != b)
COMPARISON(lt, a < b)
COMPARISON(le, a <= b)
COMPARISON(gt, a > b)
COMPARISON(ge, a >= b)

#define BITWISE(op, bool_expression, expression)             \
    LOOP(op##_bytes, uint8_t, uint8_t, expression)           \
    LOOP(op##_bools, uint8_t, uint8_t, bool_expression)      \
    LOOP(op##_words, uint32_t, uint32_t, expression)         \
    LOOP(op##_longs, uint64_t, uint64_t, expression)         \
    INTEGER_KERNEL(op, {apply_##op##_bytes, apply_##op##_bools, apply_##op##_words, apply_##op##_longs})
BITWISE(bitwise_and, (a & b) != 0, a &b)
BITWISE(bitwise_or, (a | b) != 0, a | b)
BITWISE(bitwise_xor, (a ^ b) != 0, a ^ b)
BITWISE(bitwise_not, a == 0, ~a)

#define LOGICAL(op, expression)                      \
    LOOP(op##_bools, uint8_t, uint8_t, expression)   \
    INTEGER_KERNEL(op, {.bools = apply_##op##_bools})
LOGICAL(logical_and, (a != 0) & (b != 0))
LOGICAL(logical_or, (a != 0) | (b != 0))
LOGICAL(logical_xor, (a != 0) ^ (b != 0))
LOGICAL(logical_not, a == 0)
