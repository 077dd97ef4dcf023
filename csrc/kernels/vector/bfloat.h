/* Products of bfloat16 factors with float sums. Two elements, k and k + 1, lie side by side in 4 bytes, k first: a pair. It is
 * what one instruction multiplies where the machine has such (vdpbf16ps), and elsewhere each half becomes a float by a shift
 * or a mask, in registers or, for many rows, in scratch. Products are exact in float. With that instruction, factors and sums that
 * are denormal count as zero. */
#ifndef EB_BFLOAT_H
#define EB_BFLOAT_H

#include "floats16.h"
#include "gemm.h"

typedef uint32_t eb_pair __attribute__((may_alias));
typedef uint16_t eb_bfloat __attribute__((may_alias));
typedef uint16_t eb_bfloat_unaligned __attribute__((aligned(1), may_alias)); /* weights in a file lie anywhere */

static inline int64_t count_pairs(int64_t K) { return eb_ceil_div(K, 2); }

#define multiply_bfloat_panel EB_PASTE(eb_multiply_bfloat_panel, __, EB_ISA, , , )
#define round_bfloat_rows EB_PASTE(eb_round_bfloat_rows, __, EB_ISA, , , )

/* As multiply_panel, with pairs in place of the floats of x and of b. */
void multiply_bfloat_panel(const eb_product *p);

/* M rows of K floats, rounded: y [M, count_pairs(K)], whose last pair has a 0 where K is odd. */
void round_bfloat_rows(const float *x, int64_t x_row, int64_t x_k, int64_t M, int64_t K, eb_pair *y);

/* Each number rounded to bfloat16, half to even, as a float. */
EB_INLINE vf round_to_bfloat(vf x) {
#if defined(__AVX512BF16__)
    const __m256bh rounded = _mm512_cvtneps_pbh((__m512)x);
    __m256i bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16);
#else
    const vu bits = (vu)x;
    return vf_select(x == x, (vf)((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000), x);
#endif
}

/* --- products of few and of many rows -------------------------------------------------------------------------------- */

/* Whether a product of M rows multiplies floats: where no instruction multiplies pairs, and the rows are too many to be bound by
 * reading the weight. Then each row of x becomes rounded floats once, and each panel of pairs becomes floats in scratch. */
EB_INLINE int multiplies_floats(int64_t M) {
#if defined(__AVX512BF16__)
    return (void)M, 0;
#else
    enum { FEW_BFLOAT_ROWS = 4 };
    return M > FEW_BFLOAT_ROWS;
#endif
}

/* Elements of 4 bytes in a row of x: pairs, or floats, which are as many as the elements of the pairs. */
EB_INLINE int64_t bfloat_depth(const product_rows *p) {
    return count_pairs(p->K) * (multiplies_floats(p->M) ? 2 : 1);
}

/* As round_bfloat_rows, with a float for each element. */
static inline void round_rows_to_floats(const float *x, int64_t x_row, int64_t x_k, int64_t M, int64_t K, bits32 *y) {
    for (int64_t m = 0; m < M; m++, x += x_row, y += 2 * count_pairs(K)) {
        const bits32 *bits = (const bits32 *)x;
        if (x_k == 1)
            for (int64_t k = 0; k < K; k++) y[k] = bf16_of(bits[k]) << 16;
        else
            for (int64_t k = 0; k < K; k++) y[k] = bf16_of(bits[k * x_k]) << 16;
        if (K % 2) y[K] = 0;
    }
}

/* Multiplies rows of `p` by a panel of pairs; `next` is as in eb_product, `wide` the scratch. */
static inline void multiply_bfloat_rows(const product_rows *p, const float *panel, const float *next, float *wide,
                                        eb_product *product) {
    product->b = panel;
    product->next = next;
    if (!multiplies_floats(p->M)) {
        multiply_bfloat_panel(product);
        return;
    }
    for (int64_t k = 0; k < product->K; k += 2, panel += EB_NR)
        for (int v = 0; v < EB_NR; v += EB_VL) {
            const vu pairs = (vu)vf_load(panel + v);
            vf_store(wide + k * EB_NR + v, (vf)(pairs << 16));
            vf_store(wide + (k + 1) * EB_NR + v, (vf)(pairs & 0xffff0000));
        }
    product->b = product->next = wide; /* the next panel is widened first, so there is nothing to fetch */
    multiply_panel(product);
}

/* --- rows of x in the memory that the threads share ------------------------------------------------------------------ */

/* Tiles of a node round rows of x, and its joins multiply them, so that each element is rounded once. Call with the tiles of
 * the product in node->tiles. */
static inline eb_status plan_bfloat_rows(eb_node *node, const product_rows *p) {
    enum { WORTH = 128 * 1024 }; /* elements: about 10 microseconds */
#if defined(EB_AMX)
    enum { LEAST_ROWS = 8 }; /* fewer take no longer by the instructions for vectors */
    if (p->M < LEAST_ROWS) return EB_NOT_APPLICABLE;
#endif
    if (!node->tiles) return EB_OK;
    node->joins = node->tiles;
    node->tiles = eb_max(1, eb_min(p->M, p->M * p->K / WORTH));
    node->shared_bytes = p->M * bfloat_depth(p) * 4;
    if (multiplies_floats(p->M)) node->scratch_bytes += bfloat_depth(p) * EB_NR * 4;
    return EB_OK;
}

/* Runs the tiles of [begin, end) that round, and answers the first tile of the product, counted from 0. */
static inline int64_t run_rounding(const eb_node *node, const product_rows *p, void *const *bases, int64_t begin, int64_t end) {
    const eb_rows from = float_rows(node, p, bases);
    eb_pair *pairs = eb_shared(node, bases);
    for (int64_t tile = begin; tile < eb_min(end, node->tiles); tile++) {
        const int64_t m = eb_piece(p->M, node->tiles, tile), m_end = eb_piece(p->M, node->tiles, tile + 1);
        eb_pair *to = pairs + m * bfloat_depth(p);
        if (multiplies_floats(p->M))
            round_rows_to_floats(from.x + m * from.row, from.row, from.step, m_end - m, p->K, to);
        else
            round_bfloat_rows(from.x + m * from.row, from.row, from.step, m_end - m, p->K, to);
    }
    return eb_max(0, begin - node->tiles);
}

static inline eb_rows bfloat_rows(const eb_node *node, const product_rows *p, void *const *bases) {
    return (eb_rows){eb_shared(node, bases), bfloat_depth(p), 1, bfloat_depth(p)};
}

#endif
