/* Elementary functions of vectors. Polynomials are minimax fits made for these kernels (iteratively reweighted least
 * squares on 4000 Chebyshev points in double, coefficients rounded to float). The stated errors are against double
 * and are what tests/kernels measures; NaN gives NaN everywhere. */
#ifndef EB_MATH_H
#define EB_MATH_H

#include <float.h>

#include "vec.h"

/* An epsilon above zero as a float above zero: rounded to 0, a row of equal elements would give 0 / 0. */
EB_INLINE float epsilon_of(double epsilon) { return epsilon > 0 && epsilon < FLT_MIN ? FLT_MIN : (float)epsilon; }

/* 2^n * y, for n in [-252, 254] by two factors, so that the ends of float's range come out right. */
EB_INLINE vf vf_scale(vf y, vi n) {
    vi half = n >> 1;
    return y * (vf)((half + 127) << 23) * (vf)((n - half + 127) << 23);
}

/* x = n * ln 2 + r with |r| <= ln 2 / 2: n through the sum with 1.5 * 2^23, whose last bits are the integer. */
EB_INLINE vf vf_exp_reduced(vf x, vi *n) {
    const vf magic = vf_set(12582912.0f);
    vf shifted = x * 1.44269504f + magic;
    vf count = shifted - magic;
    *n = (vi)shifted - (vi)magic;
    vf r = x - count * 0.693359375f; /* exact: the constant has few bits */
    r = r - count * -2.12194440e-4f;
    vf p = vf_set(0.001395049155689776f);
    p = p * r + 0.008368889801204205f;
    p = p * r + 0.04166620597243309f;
    p = p * r + 0.166665181517601f;
    p = p * r + 0.5f;
    return (p * (r * r) + r) + 1.0f;
}

/* --- to integers: exact --------------------------------------------------------------------------------------------- */

/* The nearest integer, the even one of two: the sum with 2^23 keeps no fraction. What is larger is an integer already. */
EB_INLINE vf vf_round(vf x) {
    const vf whole = vf_set(8388608.0f);
    vf size = vf_abs(x);
    return vf_select(size < whole, vf_signed((size + whole) - whole, x), x);
}
EB_INLINE vf vf_floor(vf x) {
    vf near = vf_round(x);
    return vf_signed(near - (vf)((vi)vf_set(1.0f) & (near > x)), x);
}
EB_INLINE vf vf_ceil(vf x) { return -vf_floor(-x); }
EB_INLINE vf vf_trunc(vf x) { return vf_signed(vf_floor(vf_abs(x)), x); }

/* -1, 0 or 1; 0 of NaN. */
EB_INLINE vf vf_sign(vf x) {
    return (vf)(((x > 0.0f) & (vi)vf_set(1.0f)) | ((x < 0.0f) & (vi)vf_set(-1.0f)));
}

/* --- exponentials --------------------------------------------------------------------------------------------------- */

/* exp: 2 ulp; overflows to Inf, underflows through the denormals to 0. */
EB_INLINE vf vf_exp(vf x) {
    x = vf_min(vf_set(89.0f), vf_max(vf_set(-105.0f), x));
    vi n;
    vf y = vf_exp_reduced(x, &n);
    return vf_scale(y, n);
}

/* exp of x <= 0 (softmax): 2 ulp; 0 below -87.68, where exp is denormal. */
EB_INLINE vf vf_exp_nonpositive(vf x) {
    x = vf_max(vf_set(-88.0f), x);
    vi n;
    vf y = vf_exp_reduced(x, &n);
    return y * (vf)((n + 127) << 23); /* n = -127 makes the factor 0 */
}

/* expm1: 2 ulp; -1 below -17. From x = n * ln 2 + r it is 2^n * expm1(r) + (2^n - 1), of halves: 2^128 is no float. */
EB_INLINE vf vf_expm1(vf x) {
    const vf magic = vf_set(12582912.0f);
    vf clamped = vf_min(vf_set(89.0f), vf_max(vf_set(-30.0f), x));
    vf shifted = clamped * 1.44269504f + magic;
    vf count = shifted - magic;
    vi n = (vi)shifted - (vi)magic;
    vf r = clamped - count * 0.693359375f; /* as in vf_exp_reduced */
    r = r - count * -2.12194440e-4f;
    vf p = vf_set(0.00019944255473092198f);
    p = p * r + 0.001393268583342433f;
    p = p * r + 0.008333208039402962f;
    p = p * r + 0.04166648909449577f;
    p = p * r + 0.1666666716337204f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    vf half = (vf)((n + 126) << 23);
    vf y = half * p + (half - 0.5f);
    return vf_signed(vf_select(n == 0, p, y + y), x); /* the sign of -0, which r has lost */
}

/* x = n + f with |f| <= 1/2; answers 2^f. n as in vf_exp_reduced. */
EB_INLINE vf vf_exp2_reduced(vf x, vi *n) {
    const vf magic = vf_set(12582912.0f);
    vf shifted = x + magic;
    *n = (vi)shifted - (vi)magic;
    vf f = x - (shifted - magic);
    vf p = vf_set(0.0013269535265862942f);
    p = p * f + 0.009671292267739773f;
    p = p * f + 0.0555071085691452f;
    p = p * f + 0.24022246897220612f;
    p = p * f + 0.6931470036506653f;
    p = p * f + 1.0f;
    return p;
}

/* exp2: 3 ulp; overflows to Inf, underflows through the denormals to 0. */
EB_INLINE vf vf_exp2(vf x) {
    vi n;
    vf p = vf_exp2_reduced(vf_min(vf_set(129.0f), vf_max(vf_set(-151.0f), x)), &n);
    return vf_scale(p, n);
}

/* sinh, cosh: 4 ulp. exp of the half where that of the whole overflows before they do. */
EB_INLINE vf vf_sinh(vf x) {
    vf size = vf_abs(x), half = vf_exp(size * 0.5f), e = vf_expm1(size);
    vf small = (e + e / (e + 1.0f)) * 0.5f;
    return vf_signed(vf_select(size > 80.0f, half * 0.5f * half, small), x);
}
EB_INLINE vf vf_cosh(vf x) {
    vf size = vf_abs(x), half = vf_exp(size * 0.5f), e = vf_exp(size);
    return vf_select(size > 80.0f, half * 0.5f * half, e * 0.5f + 0.5f / e);
}

/* 2^x for x <= 0 (attention, which scales by log2 e itself): 3 ulp; 0 below -126.5, where the result is
 * denormal. Four multiply-adds less than vf_exp_nonpositive: nothing is lost when the integer part is taken off. */
EB_INLINE vf vf_exp2_nonpositive(vf x) {
    x = vf_max(vf_set(-127.0f), x);
    vi n;
    vf p = vf_exp2_reduced(x, &n);
    return p * (vf)((n + 127) << 23); /* an integer part of -127 makes the factor 0 */
}

/* erfc(min(t, 8)) for t >= 0, as 2^q: q by a polynomial with an absolute error of 2e-7 for t < 1.7 that grows with t^2 from
 * there to 4.2. Beyond, q falls faster than it should, to -111 at 8, where erfc is 2^-96. q lies in [-111, 0], so 2^q needs no
 * care at the ends. *clamped is min(t, 8). */
EB_INLINE vf vf_erfc(vf t, vf *clamped) {
    t = vf_min(vf_set(8.0f), t);
    vf q = vf_set(-5.279404717839498e-07f);
    q = q * t + 1.2067194802511949e-05f;
    q = q * t + -0.00011780639761127532f;
    q = q * t + 0.0006188483093865216f;
    q = q * t + -0.0016140416264533997f;
    q = q * t + -0.0009546615183353424f;
    q = q * t + 0.0286528579890728f;
    q = q * t + -0.14876052737236023f;
    q = q * t + -0.9183370471000671f;
    q = q * t + -1.627915620803833f;
    q = q * t;
    *clamped = t;
    vi n;
    vf p = vf_exp2_reduced(q, &n);
    return (vf)((vu)p + ((vu)n << 23)); /* the integer is added to the exponent; unsigned, as a NaN's may be anything */
}

/* erf: 3 ulp. */
EB_INLINE vf vf_erf(vf x) {
    vf t = vf_abs(x), s = x * x;
    vf p = vf_set(7.889122935011983e-05f);
    p = p * s + -0.0008020842215046287f;
    p = p * s + 0.005189535673707724f;
    p = p * s + -0.026854444295167923f;
    p = p * s + 0.11283600330352783f;
    p = p * s + -0.3761262595653534f;
    p = p * s + 1.1283791065216064f;
    vf small = p * x;
    vf clamped, large = 1.0f - vf_erfc(t, &clamped);
    return vf_select(t > 1.0f, vf_signed(large, x), small); /* a NaN goes to the small side */
}

/* tanh: 3 ulp. */
EB_INLINE vf vf_tanh(vf x) {
    vf t = vf_abs(x), s = x * x;
    vf p = vf_set(-0.005717045161873102f);
    p = p * s + 0.02065058797597885f;
    p = p * s + -0.05374349653720856f;
    p = p * s + 0.13331490755081177f;
    p = p * s + -0.3333328366279602f;
    vf small = x + x * (s * p);
    vf large = 1.0f - 2.0f / (vf_exp(t + t) + 1.0f);
    return vf_signed(vf_select(t > 0.625f, large, small), x); /* the small side loses the sign of -0 */
}

/* sigmoid: 3 ulp down to -87; below, where the result is denormal, 0. */
EB_INLINE vf vf_sigmoid(vf x) { return 1.0f / (1.0f + vf_exp(-x)); }

/* silu: 3 ulp above -87. */
EB_INLINE vf vf_silu(vf x) { return x / (1.0f + vf_exp(-x)); }

/* gelu = (x + |x|) / 2 - |x| / 2 * erfc(|x| / sqrt 2): absolute error 2e-7 * max(1, |x|). One polynomial serves both
 * sides, and the negative side keeps its leading digits, which 1 + erf would cancel. Below -11.3 it is -2.4e-33: to return
 * 0 it would need one more instruction, which made it 7 to 9% slower. gelu(-0) is +0. */
EB_INLINE vf vf_gelu(vf x) {
    vf size = vf_abs(x), t;
    vf tail = vf_erfc(size * 0.70710678118654752f, &t);
    return x * 0.5f + size * 0.5f - t * 0.70710678118654752f * tail; /* halved first: x + |x| could overflow */
}

/* gelu with tanh, as x * sigmoid(2 u): absolute error 3e-7 * max(1, |x|). */
EB_INLINE vf vf_gelu_tanh(vf x) {
    vf u = 1.5957691216057308f * (x + 0.044715f * (x * x * x));
    return x / (1.0f + vf_exp(-u));
}

#endif
