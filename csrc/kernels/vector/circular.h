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

/* sin(r + n * pi / 2). */
EB_INLINE vf vf_sin_quarter(vf r, vi n) {
    vf s = r * r;
    vf p = vf_set(2.8134670628787717e-06f);
    p = p * s + -0.00019851526303682476f;
    p = p * s + 0.008333376608788967f;
    p = p * s + -0.1666666716337204f;
    vf sine = p * (s * r) + r;
    p = vf_set(-2.8549101216412964e-07f);
    p = p * s + 2.4818908059387468e-05f;
    p = p * s + -0.0013888973044231534f;
    p = p * s + 0.0416666679084301f;
    p = p * s + -0.5f;
    vf cosine = p * s + 1.0f;
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

#endif
