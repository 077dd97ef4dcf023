/* Implements bfloat.h. */
#include "bfloat.h"

#include "epilogue.h"

/* --- the product -------------------------------------------------------------------------------------------------- */

typedef eb_pair micro_x, micro_b;
typedef vu micro_factor;
typedef vf micro_sum;

EB_INLINE vu micro_broadcast(const eb_pair *x) { return *x - (vu){0}; }
EB_INLINE vu micro_load(const eb_pair *b) { return (vu)vf_load(b); }
EB_INLINE void micro_multiply_add(vf *sum, vu x, vu b) {
#if defined(__AVX512BF16__)
    *sum = (vf)_mm512_dpbf16_ps((__m512)*sum, (__m512bh)x, (__m512bh)b);
#else
    *sum += (vf)(x << 16) * (vf)(b << 16);
    *sum += (vf)(x & 0xffff0000) * (vf)(b & 0xffff0000);
#endif
}
EB_INLINE void micro_finish(const eb_micro *t, vf sum[][2], const int R, const int V) { finish_sums(t, sum, R, V); }

#if defined(EB_AMX)
#include "amx.h"
#else
#include "micro.h"
#endif

enum { MICRO_DEPTH = 1024 }; /* a panel's part (128 KiB with AVX-512) and that of the rows of x stay in the second-level cache */
#include "panel.h"

void multiply_bfloat_panel(const eb_product *p) { multiply_blocks(p); }

/* --- rounding ----------------------------------------------------------------------------------------------------- */

/* K contiguous floats. */
static void round_row(const float *x, int64_t K, eb_bfloat *y) {
    int64_t k = 0;
#if defined(__AVX512BF16__)
    for (; k + 32 <= K; k += 32) {
        const __m512bh rounded = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + k + 16), _mm512_loadu_ps(x + k));
        memcpy(y + k, &rounded, 64);
    }
#endif
    const bits32 *bits = (const bits32 *)x;
    for (; k < K; k++) y[k] = (eb_bfloat)bf16_of(bits[k]);
}

void round_bfloat_rows(const float *x, int64_t x_row, int64_t x_k, int64_t M, int64_t K, eb_pair *y) {
    for (int64_t m = 0; m < M; m++, x += x_row, y += count_pairs(K)) {
        eb_bfloat *row = (eb_bfloat *)y;
        if (x_k == 1)
            round_row(x, K, row);
        else
            for (int64_t k = 0; k < K; k++) row[k] = (eb_bfloat)bf16_of(((const bits32 *)x)[k * x_k]);
        if (K % 2) row[K] = 0;
    }
}
