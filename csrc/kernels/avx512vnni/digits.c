/* Implements digits.h. */
#include "digits.h"

#include "../vector/epilogue.h"

/* --- rows of x ----------------------------------------------------------------------------------------------------- */

static float element_at(const eb_rows *rows, int64_t m, int64_t k) { return rows->x[m * rows->row + k * rows->step]; }

/* Up to 16 elements from element k on, the others 0. */
static __m512 load_elements(const eb_rows *rows, int64_t m, int64_t k) {
    const int64_t count = eb_min(16, rows->K - k);
    if (rows->step == 1) return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), rows->x + m * rows->row + k);
    float elements[16] = {0};
    for (int64_t i = 0; i < count; i++) elements[i] = element_at(rows, m, k + i);
    return _mm512_loadu_ps(elements);
}

/* The bits of the largest magnitude of a row: as integers, magnitudes have the order of their floats, and infinities and NaN
 * are above all others. */
static uint32_t find_largest(const eb_rows *rows, int64_t m) {
    __m512i most = _mm512_setzero_si512();
    for (int64_t k = 0; k < rows->K; k += 16) {
        const __m512i bits = _mm512_castps_si512(load_elements(rows, m, k));
        most = _mm512_max_epu32(most, _mm512_and_si512(bits, _mm512_set1_epi32(INT32_MAX)));
    }
    return _mm512_reduce_max_epu32(most);
}

/* Are at most 1/8 of a row's elements other than 0 below 2^-12 of its largest magnitude? Digits hold the others to 19 bits or
 * more. A row of one peak and small elements is no such row: where the weight ignores the peak, digits would lose the result. */
static int is_even_row(const eb_rows *rows, int64_t m, uint32_t largest) {
    const __m512i zero = _mm512_setzero_si512(), least = _mm512_set1_epi32((int32_t)largest - (12 << 23));
    int64_t used = 0, small = 0;
    for (int64_t k = 0; k < rows->K; k += 16) {
        const __m512i bits = _mm512_and_si512(_mm512_castps_si512(load_elements(rows, m, k)), _mm512_set1_epi32(INT32_MAX));
        const __mmask16 nonzero = _mm512_cmpgt_epi32_mask(bits, zero);
        used += __builtin_popcount(nonzero);
        small += __builtin_popcount(_mm512_mask_cmplt_epi32_mask(nonzero, bits, least));
    }
    return 8 * small <= used;
}

/* Can digits hold a row with this largest magnitude? 2^127 is the largest factor that a float holds, which is too small for tiny
 * rows. From 2^104 on, 2^16 products with integers of 7 bits may overflow before they get their scale. Infinities and NaN have no
 * digits. */
static int is_in_range(uint32_t largest) { return largest == 0 || (largest >= 29u << 23 && largest < (127u + 104) << 23); }

_Static_assert(MOST_DIGIT_K <= 1 << 16, "sums of products with 2^104 and 127 fit into a float");

static void write_row(const eb_rows *rows, int64_t m, uint32_t largest, eb_digit_row *out) {
    /* Magnitudes are below 2^(exponent - 126), so this brings numbers below 2^30. */
    const int exponent = (int)(largest >> 23), shift = largest ? 156 - exponent : 0;
    const __m512 factor = _mm512_set1_ps(ldexpf(1, shift));
    /* The bytes of four numbers in turn: lowest bytes of all four, then the next ones. */
    const __m512i order = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i half = _mm512_set1_epi32((int32_t)0x80808080), ones = _mm512_set1_epi8(1);
    __m512i sums = _mm512_setzero_si512(); /* of digits: lane i is of digit i % 4 */
    int8_t *digits = out->digits;
    for (int64_t k = 0; k < rows->K; k += 16) {
        const __m512i number = _mm512_cvtps_epi32(_mm512_mul_ps(load_elements(rows, m, k), factor));
        /* The sum carries into the next byte wherever a byte is 128 or more, which becomes a negative digit. */
        const __m512i bytes = _mm512_xor_si512(_mm512_add_epi32(number, half), half);
        const __m512i quads = _mm512_shuffle_epi8(bytes, order);
        sums = _mm512_dpbusd_epi32(sums, ones, quads);
        const int64_t count = eb_min(4, count_quads(rows->K) - k / 4);
        memcpy(digits + k * DIGITS, &quads, (size_t)(count * 4 * DIGITS));
    }
    int32_t lanes[16];
    memcpy(lanes, &sums, sizeof lanes);
    for (int j = 0; j < DIGITS; j++) out->correction[j] = -128 * (lanes[j] + lanes[j + 4] + lanes[j + 8] + lanes[j + 12]);
    out->unit = ldexpf(1, -shift);
}

int eb_write_digits(const eb_rows *rows, int64_t M, void *out) {
    for (int64_t m = 0; m < M; m++) {
        const uint32_t largest = find_largest(rows, m);
        if (!is_in_range(largest) || !is_even_row(rows, m, largest)) return 0;
        write_row(rows, m, largest, (eb_digit_row *)((char *)out + m * digit_row_bytes(rows->K)));
    }
    return 1;
}

/* --- the product --------------------------------------------------------------------------------------------------- */

enum { FEW_ROWS = 3 }; /* whose sums fit into registers: 4 digits, 2 vectors each */

EB_INLINE vf combine_digits(const __m512i *sum, float unit) {
    __m512 y = _mm512_cvtepi32_ps(sum[0]);
    EB_UNROLL
    for (int j = 1; j < DIGITS; j++) y = _mm512_add_ps(y, _mm512_mul_ps(_mm512_cvtepi32_ps(sum[j]), _mm512_set1_ps((float)(1 << 8 * j))));
    return (vf)_mm512_mul_ps(y, _mm512_set1_ps(unit));
}

typedef int32_t four_digits __attribute__((aligned(1), may_alias)); /* of four elements, the factors of a quad */

/* sum += the products of 16 quads with four digits each. Not by intrinsics: gcc 12 copies each sum before it adds to it. */
EB_INLINE void add_products(__m512i *sum, __m512i quads, __m512i digits) {
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(quads), "v"(digits));
}

/* The same with digits from memory, broadcast by the instruction itself. A core runs ahead of its work by a number of instructions,
 * so fewer of them for each byte of the weight keep more loads from memory in flight. */
EB_INLINE void add_products_of(__m512i *sum, __m512i quads, const int8_t *digits) {
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(*sum) : "v"(quads), "m"(*(const four_digits *)digits));
}

/* One row by a quad of each column. */
EB_INLINE void multiply_quad(__m512i sum[2][DIGITS], const uint8_t *b, const int8_t *digits) {
    const __m512i low = _mm512_loadu_si512(b), high = _mm512_loadu_si512(b + 64);
    EB_UNROLL
    for (int j = 0; j < DIGITS; j++) {
        add_products_of(&sum[0][j], low, digits + 4 * j);
        add_products_of(&sum[1][j], high, digits + 4 * j);
    }
}

EB_INLINE void write_sums(const eb_micro *t, const eb_digit_row *const *rows, const float *scales, __m512i sum[][2][DIGITS],
                          const int R) {
    vf y[FEW_ROWS][2];
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < 2; v++) y[r][v] = combine_digits(sum[r][v], rows[r]->unit) * vf_load(scales + v * EB_VL);
    finish_sums(t, y, R, 2);
}

EB_INLINE void start_sums(const eb_digit_row *const *rows, __m512i sum[][2][DIGITS], const int R) {
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int j = 0; j < DIGITS; j++) sum[r][0][j] = sum[r][1][j] = _mm512_set1_epi32(rows[r]->correction[j]);
}

static void multiply_1(const eb_micro *t, const eb_digit_row *const *rows, const float *scales) {
    __m512i sum[1][2][DIGITS];
    const int8_t *digits = rows[0]->digits;
    const uint8_t *b = t->b;
    int64_t quads = t->groups;
    fetch_y(t, 1, 2);
    start_sums(rows, sum, 1);
    for (; quads >= 2; quads -= 2, b += 2 * EB_NR * 4, digits += 2 * 4 * DIGITS) {
        multiply_quad(sum[0], b, digits);
        multiply_quad(sum[0], b + EB_NR * 4, digits + 4 * DIGITS);
    }
    if (quads) multiply_quad(sum[0], b, digits);
    write_sums(t, rows, scales, sum, 1);
}

/* R rows. */
EB_INLINE void multiply_rows(const eb_micro *t, const eb_digit_row *const *rows, const float *scales, const int R) {
    __m512i sum[FEW_ROWS][2][DIGITS];
    const int8_t *digits[FEW_ROWS];
    const uint8_t *b = t->b;
    fetch_y(t, R, 2);
    start_sums(rows, sum, R);
    EB_UNROLL
    for (int r = 0; r < R; r++) digits[r] = rows[r]->digits;
    for (int64_t quad = 0; quad < t->groups; quad++, b += EB_NR * 4) {
        const __m512i low = _mm512_loadu_si512(b), high = _mm512_loadu_si512(b + 64);
        EB_UNROLL
        for (int r = 0; r < R; r++) {
            EB_UNROLL
            for (int j = 0; j < DIGITS; j++) {
                const __m512i factors = _mm512_set1_epi32(*(const four_digits *)(digits[r] + 4 * j));
                add_products(&sum[r][0][j], low, factors);
                add_products(&sum[r][1][j], high, factors);
            }
            digits[r] += 4 * DIGITS;
        }
    }
    write_sums(t, rows, scales, sum, R);
}

static void multiply_2(const eb_micro *t, const eb_digit_row *const *rows, const float *scales) { multiply_rows(t, rows, scales, 2); }
static void multiply_3(const eb_micro *t, const eb_digit_row *const *rows, const float *scales) { multiply_rows(t, rows, scales, 3); }
static void (*const multiply_of[FEW_ROWS])(const eb_micro *, const eb_digit_row *const *, const float *) = {multiply_1, multiply_2,
                                                                                                         multiply_3};

/* Rows [m, m + count) of the product. */
static void multiply_block(const eb_product *p, const void *rows, int64_t m, int64_t count,
                           const uint8_t *panel, const float *scales) {
    float sums[FEW_ROWS * EB_NR], residual[FEW_ROWS * EB_NR] = {0}, bias[EB_NR] = {0};
    const eb_digit_row *block[FEW_ROWS];
    const int is_edge = p->columns < EB_NR; /* then through small buffers, so that nothing beyond the columns is touched */
    float *y = p->y + m * p->ldy;
    eb_micro t = {.groups = count_quads(p->K),
                  .b = panel,
                  .y = is_edge ? sums : y,
                  .ldy = is_edge ? EB_NR : p->ldy,
                  .alpha = p->alpha,
                  .bias = p->bias,
                  .residual = p->residual ? p->residual + m * p->ldr : NULL,
                  .ldr = p->ldr,
                  .clamp = p->clamp};
    for (int64_t r = 0; r < count; r++) block[r] = digit_row(rows, p->K, m + r);
    if (is_edge && p->bias) {
        memcpy(bias, p->bias, (size_t)p->columns * 4);
        t.bias = bias;
    }
    if (is_edge && p->residual) {
        for (int64_t r = 0; r < count; r++) memcpy(residual + r * EB_NR, t.residual + r * p->ldr, (size_t)p->columns * 4);
        t.residual = residual;
        t.ldr = EB_NR;
    }
    multiply_of[count - 1](&t, block, scales);
    for (int64_t r = 0; is_edge && r < count; r++) memcpy(y + r * p->ldy, sums + r * EB_NR, (size_t)p->columns * 4);
}

void eb_multiply_digits(const eb_product *p, const void *rows, const uint8_t *panel, const float *scales) {
    const int64_t blocks = eb_ceil_div(p->M, FEW_ROWS);
    for (int64_t i = 0; i < blocks; i++) {
        const int64_t m = eb_piece(p->M, blocks, i);
        multiply_block(p, rows, m, eb_piece(p->M, blocks, i + 1) - m, panel, scales);
    }
    if (p->activation) p->activation(p->y, p->M, p->columns, p->ldy);
}

/* --- a panel as floats --------------------------------------------------------------------------------------------- */

void eb_widen_quads(const uint8_t *panel, int64_t K, const float *scales, float *wide) {
    const __m512i low_byte = _mm512_set1_epi32(255), middle = _mm512_set1_epi32(128);
    for (int64_t k = 0; k < K; k += 4, panel += EB_NR * 4)
        for (int v = 0; v < 2; v++) {
            const __m512i quads = _mm512_loadu_si512(panel + 64 * v);
            const vf scale = vf_load(scales + v * EB_VL);
            for (int64_t i = 0; i < eb_min(4, K - k); i++) {
                const __m512i byte = _mm512_and_si512(_mm512_srl_epi32(quads, _mm_cvtsi32_si128((int)(8 * i))), low_byte);
                vf_store(wide + (k + i) * EB_NR + v * EB_VL, (vf)_mm512_cvtepi32_ps(_mm512_sub_epi32(byte, middle)) * scale);
            }
        }
}
