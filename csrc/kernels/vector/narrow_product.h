/* Implements narrow.h for one type of elements. A file that includes this header first defines
 *
 *   element        type of an element of the weight
 *   HAS_SCALES     enumerator: 1 if each column has a scale
 *   load_elements  EB_VL elements as floats
 */
#ifndef EB_NARROW_PRODUCT_H
#define EB_NARROW_PRODUCT_H

#include "narrow.h"

#include "epilogue.h"

/* Are all sums finite? x - x is 0 for a finite number and NaN for others. */
EB_INLINE int are_finite(vf sum[][2], const int R) {
    vf zero = vf_set(0);
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < 2; v++) zero += sum[r][v] - sum[r][v];
    return !vi_any(zero != zero);
}

/* R rows, U sets of sums: few rows would wait for their previous addition. Without `scaled_first`, a sum of products with
 * integers is the result divided by the scale, so it may overflow where the result does not. Then it answers 0 and writes nothing. `scaled_first`: elements get their scale before they are multiplied, as in a panel of floats, which is slower. */
EB_INLINE int multiply_few(const eb_micro *t, const float *scales, const int R, const int U, const int scaled_first) {
    vf sum[4][FEW_NARROW_ROWS][2];
    const vf low_scale = scaled_first ? vf_load(scales) : vf_set(1), high_scale = scaled_first ? vf_load(scales + EB_VL) : vf_set(1);
    const float *x = t->x;
    const element *b = t->b;
    int64_t k = t->groups;
    fetch_y(t, R, 2);
    EB_UNROLL
    for (int u = 0; u < U; u++)
        EB_UNROLL
        for (int r = 0; r < R; r++) sum[u][r][0] = sum[u][r][1] = vf_set(0);
    for (; k >= U; k -= U, b += U * EB_NR) {
        EB_UNROLL
        for (int u = 0; u < U; u++, x += t->x_k) {
            vf low = load_elements(b + u * EB_NR), high = load_elements(b + u * EB_NR + EB_VL);
            if (scaled_first) low *= low_scale, high *= high_scale;
            EB_UNROLL
            for (int r = 0; r < R; r++) {
                const vf value = vf_set(x[r * t->x_row]);
                sum[u][r][0] += value * low;
                sum[u][r][1] += value * high;
            }
        }
    }
    for (; k > 0; k--, b += EB_NR, x += t->x_k) {
        vf low = load_elements(b), high = load_elements(b + EB_VL);
        if (scaled_first) low *= low_scale, high *= high_scale;
        EB_UNROLL
        for (int r = 0; r < R; r++) {
            const vf value = vf_set(x[r * t->x_row]);
            sum[0][r][0] += value * low;
            sum[0][r][1] += value * high;
        }
    }
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < 2; v++)
            EB_UNROLL
            for (int u = 1; u < U; u++) sum[0][r][v] += sum[u][r][v];
    if (HAS_SCALES && !scaled_first) {
        if (__builtin_expect(!are_finite(sum[0], R), 0)) return 0;
        EB_UNROLL
        for (int r = 0; r < R; r++)
            EB_UNROLL
            for (int v = 0; v < 2; v++) sum[0][r][v] *= vf_load(scales + v * EB_VL);
    }
    finish_sums(t, sum[0], R, 2);
    return 1;
}

static int multiply_1(const eb_micro *t, const float *scales) { return multiply_few(t, scales, 1, 4, 0); }
static int multiply_2(const eb_micro *t, const float *scales) { return multiply_few(t, scales, 2, 2, 0); }
static int multiply_3(const eb_micro *t, const float *scales) { return multiply_few(t, scales, 3, 2, 0); }
static int multiply_4(const eb_micro *t, const float *scales) { return multiply_few(t, scales, 4, 1, 0); }
static int (*const of_rows[FEW_NARROW_ROWS])(const eb_micro *, const float *) = {multiply_1, multiply_2, multiply_3, multiply_4};

/* Rows whose sums overflow, one after the other. */
static void multiply_scaled(eb_micro t, const float *scales, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        multiply_few(&t, scales, 1, 1, 1);
        t.x = (const float *)t.x + t.x_row;
        t.y += t.ldy;
        if (t.residual) t.residual += t.ldr;
    }
}

/* At the right edge through small buffers, so that nothing beyond the columns of y is touched. */
static void multiply_few_rows(const eb_product *p, const element *panel, const float *scales) {
    float sums[FEW_NARROW_ROWS * EB_NR] = {0}, bias[EB_NR] = {0};
    const int is_edge = p->columns < EB_NR;
    eb_micro t = {.groups = p->K,
                  .x = p->x,
                  .x_row = p->x_row,
                  .x_k = p->x_k,
                  .b = panel,
                  .y = is_edge ? sums : p->y,
                  .ldy = is_edge ? EB_NR : p->ldy,
                  .alpha = p->alpha,
                  .bias = p->bias,
                  .residual = p->residual,
                  .ldr = p->ldr,
                  .clamp = p->clamp};
    if (is_edge && p->bias) {
        memcpy(bias, p->bias, (size_t)p->columns * 4);
        t.bias = bias;
    }
    if (is_edge && p->residual) {
        for (int64_t r = 0; r < p->M; r++) memcpy(sums + r * EB_NR, p->residual + r * p->ldr, (size_t)p->columns * 4);
        t.residual = sums;
        t.ldr = EB_NR;
    }
    if (!of_rows[p->M - 1](&t, scales)) multiply_scaled(t, scales, p->M);
    for (int64_t r = 0; is_edge && r < p->M; r++) memcpy(p->y + r * p->ldy, sums + r * EB_NR, (size_t)p->columns * 4);
    if (p->activation) p->activation(p->y, p->M, p->columns, p->ldy);
}

/* A panel as floats, each rounded once. */
static void widen_panel(const element *panel, int64_t K, const float *scales, float *wide) {
    const vf low = HAS_SCALES ? vf_load(scales) : vf_set(1), high = HAS_SCALES ? vf_load(scales + EB_VL) : vf_set(1);
    for (int64_t k = 0; k < K; k++, panel += EB_NR, wide += EB_NR) {
        const vf first = load_elements(panel), second = load_elements(panel + EB_VL);
        vf_store(wide, HAS_SCALES ? first * low : first);
        vf_store(wide + EB_VL, HAS_SCALES ? second * high : second);
    }
}

static void multiply_narrow_panel(eb_product *p, const element *panel, const float *scales, float *wide) {
    if (p->M <= FEW_NARROW_ROWS) {
        multiply_few_rows(p, panel, scales);
        return;
    }
    widen_panel(panel, p->K, scales, wide);
    p->b = wide;
    p->next = wide; /* the next panel is widened first, so there is nothing to fetch */
    multiply_panel(p);
}

#endif
