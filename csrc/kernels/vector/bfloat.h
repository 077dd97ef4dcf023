/* Products of bfloat16 factors with float sums. Two elements, k and k + 1, lie side by side in 4 bytes, k first: a pair. It is
 * what one instruction multiplies where the machine has such (vdpbf16ps), and elsewhere each half becomes a float by a shift
 * or a mask. Products are exact in float. With that instruction, factors and sums that are denormal count as zero. */
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

/* --- rows of x in the memory that the threads share ------------------------------------------------------------------ */

/* Tiles of a node round rows of x, and its joins multiply them, so that each element is rounded once. Call with the tiles of
 * the product in node->tiles. */
static inline void plan_bfloat_rows(eb_node *node, const product_rows *p) {
    enum { WORTH = 128 * 1024 }; /* elements: about 10 microseconds */
    if (!node->tiles) return;
    node->joins = node->tiles;
    node->tiles = eb_max(1, eb_min(p->M, p->M * p->K / WORTH));
    node->shared_bytes = p->M * count_pairs(p->K) * (int64_t)sizeof(eb_pair);
}

/* Runs the tiles of [begin, end) that round, and answers the first tile of the product, counted from 0. */
static inline int64_t run_rounding(const eb_node *node, const product_rows *p, void *const *bases, int64_t begin, int64_t end) {
    const eb_rows from = float_rows(node, p, bases);
    eb_pair *pairs = eb_shared(node, bases);
    for (int64_t tile = begin; tile < eb_min(end, node->tiles); tile++) {
        const int64_t m = eb_piece(p->M, node->tiles, tile), m_end = eb_piece(p->M, node->tiles, tile + 1);
        round_bfloat_rows(from.x + m * from.row, from.row, from.step, m_end - m, p->K, pairs + m * count_pairs(p->K));
    }
    return eb_max(0, begin - node->tiles);
}

static inline eb_rows bfloat_rows(const eb_node *node, const product_rows *p, void *const *bases) {
    const int64_t pairs = count_pairs(p->K);
    return (eb_rows){eb_shared(node, bases), pairs, 1, pairs};
}

#endif
