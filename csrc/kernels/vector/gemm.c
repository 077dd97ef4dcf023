/* The product of floats (micro.h, panel.h) and packing: implements gemm.h. */
#include "gemm.h"

#include "epilogue.h"

/* --- the product -------------------------------------------------------------------------------------------------- */

typedef float micro_x, micro_b;
typedef vf micro_factor, micro_sum;

EB_INLINE vf micro_broadcast(const float *x) { return vf_set(*x); }
EB_INLINE vf micro_load(const float *b) { return vf_load(b); }
EB_INLINE void micro_multiply_add(vf *sum, vf x, vf b) { *sum += x * b; }
EB_INLINE void micro_finish(const eb_micro *t, vf sum[][2], const int R, const int V) { finish_sums(t, sum, R, V); }

#include "micro.h"

enum { MICRO_DEPTH = 1024 }; /* a panel's part (128 KiB with AVX-512) and that of the rows of x stay in the second-level cache */
#include "panel.h"

void multiply_panel(const eb_product *p) { multiply_blocks(p); }

/* --- packing ------------------------------------------------------------------------------------------------------ */

/* A square of EB_VL columns by EB_VL rows of a panel, from columns whose k is contiguous. */
static void pack_square(const eb_float_unaligned *source, int64_t n_step, float *panel) {
    vf rows[EB_VL];
    EB_UNROLL
    for (int n = 0; n < EB_VL; n++) rows[n] = vf_load(source + n * n_step);
    vf_transpose(rows);
    EB_UNROLL
    for (int k = 0; k < EB_VL; k++) vf_store(panel + k * EB_NR, rows[k]);
}

void pack_panel(const eb_float_unaligned *source, int64_t k_step, int64_t n_step, int64_t K, int64_t columns,
                float *panel) {
    if (K && columns < EB_NR) memset(panel, 0, (size_t)(K * EB_NR) * 4); /* no k: `panel` may be no memory at all */
    pack_columns(source, k_step, n_step, K, columns, panel);
}

void pack_columns(const eb_float_unaligned *source, int64_t k_step, int64_t n_step, int64_t K, int64_t columns,
                  float *panel) {
    enum { BLOCK = 16 };
    if (n_step == 1) {
        for (int64_t k = 0; k < K; k++) memcpy(panel + k * EB_NR, source + k * k_step, (size_t)columns * 4);
        return;
    }
    int64_t n_squares = k_step == 1 ? columns / EB_VL * EB_VL : 0, k_squares = n_squares ? K / EB_VL * EB_VL : 0;
    for (int64_t k = 0; k < k_squares; k += EB_VL)
        for (int64_t n = 0; n < n_squares; n += EB_VL) pack_square(source + k + n * n_step, n_step, panel + k * EB_NR + n);
    for (int64_t k0 = 0; k0 < K; k0 += BLOCK)
        for (int64_t n = k0 + BLOCK <= k_squares ? n_squares : 0; n < columns; n++)
            for (int64_t k = k0; k < eb_min(K, k0 + BLOCK); k++)
                panel[k * EB_NR + n] = source[k * k_step + n * n_step];
}
