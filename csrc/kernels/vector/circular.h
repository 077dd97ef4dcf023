/* Sine and cosine of vectors. Polynomials as in math.h. */
#ifndef EB_CIRCULAR_H
#define EB_CIRCULAR_H

#include "math.h"

/* x >= 0 as n * pi / 2 + r with |r| < 0.81, for x < 2^17. In double, since a float may lie as near as 2^-30 to a multiple
 * of pi / 2: n has 17 bits and the first part of pi / 2 has 33, so that their product and the difference are exact. */
EB_INLINE vf vf_quarter(vf x, vi *n) {
    const vf magic = vf_set(12582912.0f);
    vf shifted = x * 0.63661977236758134f + magic;
    *n = (vi)shifted - (vi)magic;
    vd x0, x1, n0, n1;
    vf_widen(x, &x0, &x1);
    vf_widen(shifted - magic, &n0, &n1);
    const double first = 0x1.921fb544p+0, second = 0x1.0b4611a626331p-34;
    return vf_narrow((x0 - n0 * first) - n0 * second, (x1 - n1 * first) - n1 * second);
}

EB_INLINE void vf_sin_cos(vf r, vf *sine, vf *cosine) {
    vf s = r * r;
    vf p = vf_set(2.8134670628787717e-06f);
    p = p * s + -0.00019851526303682476f;
    p = p * s + 0.008333376608788967f;
    p = p * s + -0.1666666716337204f;
    *sine = p * (s * r) + r;
    p = vf_set(-2.8549101216412964e-07f);
    p = p * s + 2.4818908059387468e-05f;
    p = p * s + -0.0013888973044231534f;
    p = p * s + 0.0416666679084301f;
    p = p * s + -0.5f;
    *cosine = p * s + 1.0f;
}

/* sin(r + n * pi / 2). */
EB_INLINE vf vf_sin_quarter(vf r, vi n) {
    vf sine, cosine;
    vf_sin_cos(r, &sine, &cosine);
    vf y = vf_select((n & 1) == 1, cosine, sine);
    return (vf)((vi)y ^ ((n & 2) << 30));
}

/* What lies beyond vf_quarter, infinities and NaN among it: element by element with the C library's functions of doubles,
 * which reduce any argument exactly. */
static vf vf_far(vf x, vf y, double (*function)(double)) {
    float from[EB_VL], to[EB_VL];
    memcpy(from, &x, sizeof from);
    memcpy(to, &y, sizeof to);
    for (int i = 0; i < EB_VL; i++)
        if (!(fabsf(from[i]) < 0x1p17f)) to[i] = (float)function(from[i]);
    memcpy(&y, to, sizeof to);
    return y;
}

/* sin, cos: 2 ulp for every argument. */
EB_INLINE vf vf_sin(vf x) {
    vf size = vf_abs(x);
    vi n;
    vf r = vf_quarter(size, &n);
    vf y = (vf)((vi)vf_sin_quarter(r, n) ^ ((vi)x & INT32_MIN));
    return __builtin_expect(vi_any(~(size < 0x1p17f)), 0) ? vf_far(x, y, sin) : y;
}
EB_INLINE vf vf_cos(vf x) {
    vf size = vf_abs(x);
    vi n;
    vf r = vf_quarter(size, &n);
    vf y = vf_sin_quarter(r, n + 1);
    return __builtin_expect(vi_any(~(size < 0x1p17f)), 0) ? vf_far(x, y, cos) : y;
}


/* tan: 4 ulp for every argument. */
EB_INLINE vf vf_tan(vf x) {
    vf size = vf_abs(x), sine, cosine;
    vi n;
    vf_sin_cos(vf_quarter(size, &n), &sine, &cosine);
    vi is_odd = (n & 1) == 1;
    vf y = vf_select(is_odd, -cosine, sine) / vf_select(is_odd, sine, cosine);
    y = (vf)((vi)y ^ ((vi)x & INT32_MIN));
    return __builtin_expect(vi_any(~(size < 0x1p17f)), 0) ? vf_far(x, y, tan) : y;
}

/* atan of x in [0, 1]: 2 ulp. */
EB_INLINE vf vf_atan_part(vf x) {
    vf s = x * x;
    vf p = vf_set(0.002920598490163684f);
    p = p * s + -0.016367554664611816f;
    p = p * s + 0.043211255222558975f;
    p = p * s + -0.07552163302898407f;
    p = p * s + 0.10665981471538544f;
    p = p * s + -0.14211049675941467f;
    p = p * s + 0.19993771612644196f;
    p = p * s + -0.33333152532577515f;
    return x + x * (s * p);
}

/* atan: 3 ulp. */
EB_INLINE vf vf_atan(vf x) {
    vf size = vf_abs(x);
    vi is_far = size > 1.0f;
    vf y = vf_atan_part(vf_select(is_far, 1.0f / size, size));
    return vf_signed(vf_select(is_far, 1.57079633f - y, y), x);
}

/* atan2(y, x): 3 ulp; zeros and infinities as in C. */
EB_INLINE vf vf_atan2(vf y, vf x) {
    vf height = vf_abs(y), width = vf_abs(x), large = vf_max(height, width), small = vf_min(height, width);
    vf ratio = vf_select(large == 0.0f, large, small / large);
    ratio = vf_select(small == INFINITY, vf_set(1.0f), ratio);
    vf angle = vf_atan_part(ratio);
    angle = vf_select(height > width, 1.57079633f - angle, angle);
    angle = vf_select((vi)x < 0, 3.14159265f - angle, angle);
    return vf_select((x != x) | (y != y), x + y, vf_signed(angle, y));
}

#endif
