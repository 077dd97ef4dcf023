/* Sizes that plans and packings compute, and the limits that they must keep. The ops bound every operand, and what shapes and
 * attributes make of an image, to 2^48 bytes. Plans multiply more than that, such as all multiply-adds: such products saturate
 * here, and eb_plan_node refuses the plan.
 */
#ifndef EB_CHECKED_H
#define EB_CHECKED_H

#include <stdint.h>

/* Stands for every larger number. It is far enough below INT64_MAX that rounding it up to a multiple does not overflow. */
#define EB_SATURATED ((int64_t)1 << 62)

/* A tensor, and all memory of a node together, has fewer bytes: the address space of a 64-bit process. */
#define EB_MOST_BYTES ((int64_t)1 << 48)
/* Kernels multiply the number of a tile by its elements, fewer than 2^14, or by what makes it a part of a tensor. */
#define EB_MOST_TILES ((int64_t)1 << 48)
/* Threads that `scratch_bytes` is multiplied by. */
enum { EB_MOST_THREADS = 1024 };

static inline int64_t eb_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t eb_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t eb_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* a * b and a + b for a, b >= 0: EB_SATURATED where the result would be larger. */
static inline int64_t eb_multiply(int64_t a, int64_t b) {
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? EB_SATURATED : eb_min(product, EB_SATURATED);
}
static inline int64_t eb_add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? EB_SATURATED : eb_min(sum, EB_SATURATED);
}

static inline int64_t eb_multiply_all(const int64_t *factors, int count) {
    int64_t product = 1;
    for (int i = 0; i < count; i++) product = eb_multiply(product, factors[i]);
    return product;
}
/* The saturating product of any number of factors. */
#define EB_MULTIPLY(...) eb_multiply_all((const int64_t[]){__VA_ARGS__}, (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8))

/* Whether `amount`, the bytes that a kernel allocates or copies for itself, is in proportion to `basis`: the bytes of the
 * operands and, where the amount is time, the op's multiply-adds. A step that moves no bytes but divides a few times counts
 * as EB_STEP_BYTES. Both may be saturated. The limit is above what ordinary cases need: a packed weight of one column has
 * 32 times the weight's bytes; a convolution of dilation 36 over 33 x 33 places copies 72 times the bytes of its operands,
 * but that is half a byte a multiply-add. */
enum { EB_PROPORTION = 64, EB_PROPORTION_LEAST = 1 << 26, EB_STEP_BYTES = 64 };
static inline int eb_is_proportionate(int64_t amount, int64_t basis) {
    return amount < EB_SATURATED && amount <= eb_add(eb_multiply(EB_PROPORTION, basis), EB_PROPORTION_LEAST);
}

#endif
