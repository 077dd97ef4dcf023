/* Products of floats with a weight of 8 bits by vpdpbusd, which multiplies unsigned with signed bytes and adds four products to
 * an integer.
 *
 * A row of x becomes fixed-point numbers of 31 bits: x * 2^shift, rounded, where 2^shift brings the largest magnitude of the row
 * just below 2^30. Each number is four signed digits of base 256, and each digit is a factor of its own:
 *
 *   x[k] * 2^shift = sum over j of digit[j][k] * 256^j          sum[j] = sum over k of digit[j][k] * w[k], exact in 32 bits
 *   y = scale * 2^-shift * sum over j of 256^j * sum[j]
 *
 * An element of x is exact down to 1/128 of the largest magnitude of its row; below that it is off by at most 2^-31 of that
 * magnitude. The sums have no rounding at all, so the result is closer to the definition than sums of floats are. All rows of the
 * node are multiplied as floats where digits do not hold one of them well: where it has an infinity or a NaN, where its largest
 * magnitude is below 2^-98 or not below 2^104, or where more than 1/8 of its elements other than 0 are below 2^-12 of that.
 *
 * Why: few rows are bound by reading the weight. Widening bytes to floats takes 5.3 cycles for 32 bytes, and memory brings 32
 * bytes in 3.3; four multiplications by digits take 2 cycles for 32 bytes (measured on Zen 4).
 *
 * The weight is packed as in quads.h, w + 128 for each element. The 128 times the sum of digits that this adds is subtracted
 * before. More rows widen a panel to floats once (multiply_panel). */
#ifndef EB_DIGITS_H
#define EB_DIGITS_H

#include "../avx512/isa.h"
#define EB_FLOAT_ISA avx512
#include "../vector/quads.h"

enum {
    DIGITS = 4,
    MOST_DIGIT_ROWS = 8,    /* more rows are multiplied as floats */
    MOST_DIGIT_K = 1 << 16, /* the sum of a digit fits into 32 bits: 255 * 128 * 2^16 < 2^31 */
};

/* A row of x. Behind the last row there is one number, which is what eb_write_digits answered. */
typedef struct {
    int32_t correction[DIGITS]; /* -128 times the sum of each digit */
    float unit;                 /* 2^-shift */
    int32_t unused[3];
    int8_t digits[]; /* [quads][DIGITS][4] */
} eb_digit_row;

static inline int64_t digit_row_bytes(int64_t K) { return (int64_t)sizeof(eb_digit_row) + count_quads(K) * 4 * DIGITS; }

static inline const eb_digit_row *digit_row(const void *rows, int64_t K, int64_t m) {
    return (const eb_digit_row *)((const char *)rows + m * digit_row_bytes(K));
}

/* `rows` of x as digits, to `out`; answers 1, or 0 if they must be multiplied as floats. Then `out` is not usable. */
int eb_write_digits(const eb_rows *rows, int64_t M, void *out);

/* As multiply_panel, but for `x`, `b` and `next`: rows as eb_write_digits wrote them, a panel of quads, and EB_NR scales. */
void eb_multiply_digits(const eb_product *p, const void *rows, const uint8_t *panel, const float *scales);

/* A panel of quads as floats [K][EB_NR]. */
void eb_widen_quads(const uint8_t *panel, int64_t K, const float *scales, float *wide);

/* --- what the kernels share ---------------------------------------------------------------------------------------- */

static inline int uses_digits(const product_rows *p) { return p->M <= MOST_DIGIT_ROWS && p->K <= MOST_DIGIT_K; }

/* Call with the tiles of the product in node->tiles and with the scratch of the product. Where there are digits, one tile writes
 * them for its joins. Scratch has room for a panel as floats. */
static inline void plan_digits(eb_node *node, const product_rows *p) {
    node->scratch_bytes += p->K * EB_NR * 4;
    if (!uses_digits(p) || !node->tiles) return;
    node->joins = node->tiles;
    node->tiles = 1;
    node->shared_bytes = p->M * digit_row_bytes(p->K) + 64;
}

static inline int32_t *digit_flag(const eb_node *node, const product_rows *p, void *const *bases) {
    return (int32_t *)((char *)eb_shared(node, bases) + p->M * digit_row_bytes(p->K));
}

/* Writes the digits if [begin, end) has their tile. Makes [begin, end) the tiles of the product, counted from 0. */
static inline void run_digits(const eb_node *node, const product_rows *p, void *const *bases, int64_t *begin, int64_t *end) {
    if (!node->joins) return;
    const eb_rows rows = float_rows(node, p, bases);
    if (*begin == 0) *digit_flag(node, p, bases) = eb_write_digits(&rows, p->M, eb_shared(node, bases));
    *begin = eb_max(0, *begin - 1);
    *end -= 1;
}

_Static_assert((int)MOST_DIGIT_ROWS <= (int)EB_MR, "rows of digits are one tile of rows, which begins at row 0");

/* Multiplies a panel of quads. `wide` is the scratch of plan_digits. */
static inline void multiply_quads(const eb_node *node, const product_rows *p, void *const *bases, eb_product *product,
                                  const uint8_t *panel, const float *scales, float *wide) {
    if (node->joins && *digit_flag(node, p, bases)) {
        eb_multiply_digits(product, eb_shared(node, bases), panel, scales);
        return;
    }
    eb_widen_quads(panel, p->K, scales, wide);
    product->b = wide;
    product->next = wide; /* the next panel is widened first, so there is nothing to fetch */
    multiply_panel(product);
}

#endif
