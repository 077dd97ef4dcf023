/* Logarithms and powers of vectors: what takes a float apart into mantissa and exponent. Polynomials as in math.h. */
#ifndef EB_LOGARITHM_H
#define EB_LOGARITHM_H

#include "math.h"

/* x = 2^e * m with m in [sqrt 1/2, sqrt 2). e is -Inf for 0 and Inf or NaN where x is, so that whatever adds e to
 * something finite has these right. m and *n, e as an integer, are finite for every x; those of x < 0 mean nothing. */
EB_INLINE vf vf_split(vf x, vf *e, vi *n) {
    const int32_t root = 0x3f3504f3; /* sqrt 1/2 */
    vi tiny = x < 0x1p-126f;
    vi bits = ((vi)vf_select(tiny, x * 8388608.0f, x) & INT32_MAX) - root; /* without a sign: nothing overflows */
    *n = (bits >> 23) - (tiny & 23);
    vf exponent = __builtin_convertvector(*n, vf);
    exponent = vf_select(x == 0.0f, vf_set(-INFINITY), exponent);
    *e = vf_select(x < INFINITY, exponent, x);
    return (vf)((bits & 0x7fffff) + root);
}

/* e * ln 2 + log(1 + f) for f in [sqrt 1/2 - 1, sqrt 2 - 1]. Both parts of ln 2 are positive, so that an infinite e does
 * not meet its opposite; the first has few bits, and its product with e is exact. */
EB_INLINE vf vf_log_sum(vf e, vf f) {
    vf p = vf_set(0.06749269366264343f);
    p = p * f + -0.11670098453760147f;
    p = p * f + 0.11883548647165298f;
    p = p * f + -0.12406233698129654f;
    p = p * f + 0.14220358431339264f;
    p = p * f + -0.16667988896369934f;
    p = p * f + 0.2000207155942917f;
    p = p * f + -0.25000008940696716f;
    p = p * f + 0.3333331346511841f;
    p = p * f + -0.5f;
    return e * 0.693145751953125f + (f + (p * (f * f) + e * 1.42860677e-6f));
}

/* log: 2 ulp; NaN below 0. */
EB_INLINE vf vf_log(vf x) {
    vf e;
    vi n;
    vf m = vf_split(x, &e, &n);
    return vf_select(x < 0.0f, vf_set(NAN), vf_log_sum(e, m - 1.0f));
}

/* log2: 3 ulp, and whole numbers exactly; NaN below 0. */
EB_INLINE vf vf_log2(vf x) {
    vf e;
    vi n;
    vf m = vf_split(x, &e, &n);
    return vf_select(x < 0.0f, vf_set(NAN), e + vf_log_sum(vf_set(0), m - 1.0f) * 1.44269504f);
}

/* log1p: 2 ulp; NaN below -1. What 1 + x has rounded off is given back to the mantissa, where it is exact near 0. */
EB_INLINE vf vf_log1p(vf x) {
    vf u = x + 1.0f, e;
    vf lost = vf_select(x < 1.0f, x - (u - 1.0f), 1.0f - (u - x));
    vi n;
    vf m = vf_split(u, &e, &n);
    vi inverse = 127 - n; /* the exponent of 2^-n; 0 where that is denormal and `lost` means nothing any more */
    inverse &= ~(inverse >> 31);
    vf f = (m - 1.0f) + vf_select(u < INFINITY, lost, (vf){0}) * (vf)(inverse << 23);
    vf y = vf_select(x < -1.0f, vf_set(NAN), vf_log_sum(e, f));
    return vf_signed(y, x); /* the sign of -0 */
}

/* log2(m) + e in double, for half of the lanes: error 2^-48 of the result. By t = (m - 1) / (m + 1), |t| < 0.172. */
EB_INLINE vd vd_log2_sum(vd e, vd m) {
    vd t = (m - 1.0) / (m + 1.0), s = t * t;
    vd p = vd_set(0.24268231941080465);
    p = p * s + 0.26146698627039416;
    p = p * s + 0.3206155280881434;
    p = p * s + 0.41219841777718635;
    p = p * s + 0.5770780171068157;
    p = p * s + 0.9617966939248584;
    p = p * s + 2.8853900817779268;
    return p * t + e;
}

/* 2^t in double: error 2^-40; beyond float's range something beyond float's range. */
EB_INLINE vd vd_exp2(vd t) {
    const vd magic = vd_set(0x1.8p52);
    t = vd_select(t > 200.0, vd_set(200.0), vd_select(t < -200.0, vd_set(-200.0), t));
    vd shifted = t + magic, f = t - (shifted - magic);
    vd p = vd_set(1.3264073963495064e-06);
    p = p * f + 1.5310080876216403e-05;
    p = p * f + 0.00015403411598607046;
    p = p * f + 0.0013333450561597267;
    p = p * f + 0.009618129228565092;
    p = p * f + 0.05550410941213837;
    p = p * f + 0.24022650695467068;
    p = p * f + 0.693147180545931;
    p = p * f + 1.000000000000027;
    return (vd)((vul)p + ((vul)shifted << 52)); /* the integer is added to the exponent */
}

/* pow: 1 ulp, by 2^(y * log2 |x|) in double, so that integer powers which are floats come out exact. Zeros, infinities
 * and signs as in C: 1 wherever y is 0 or x is 1, and for -1 to any infinity. */
EB_INLINE vf vf_pow(vf x, vf y) {
    vf size = vf_abs(x), e;
    vi n;
    vf m = vf_split(size, &e, &n);
    vd m0, m1, e0, e1, y0, y1;
    vf_widen(m, &m0, &m1);
    vf_widen(e, &e0, &e1);
    vf_widen(y, &y0, &y1);
    vf z = vf_narrow(vd_exp2(y0 * vd_log2_sum(e0, m0)), vd_exp2(y1 * vd_log2_sum(e1, m1)));
    vf half = y * 0.5f;
    vi is_whole = vf_round(y) == y, is_odd = is_whole & (vf_round(half) != half), is_nan = (x != x) | (y != y);
    is_nan |= (x < 0.0f) & (size < INFINITY) & ~is_whole;
    z = vf_select(is_nan, vf_set(NAN), z);
    z = vf_select((y == 0.0f) | (x == 1.0f) | ((size == 1.0f) & (vf_abs(y) == INFINITY)), vf_set(1.0f), z);
    return (vf)((vi)z ^ (is_odd & (vi)x & INT32_MIN));
}

#endif
