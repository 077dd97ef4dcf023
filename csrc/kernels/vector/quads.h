/* Products of bytes with int32 sums: rows that quantize_rows made, by a constant weight of bytes with a scale for each column.
 *
 *   y = float(sum over k of x[m][k] * w[k][n]) * scale of the column * scale of the row     (engine/ops/arithmetic.py)
 *
 * The weight is packed as unsigned bytes, w + 128, in fours along k: panels of quads [ceil(K / 4)][EB_NR][4]. Where an
 * instruction sums the four products of two quads, it reads them as they are: vpdpbusd, after which 128 times the sum of the row of
 * x is subtracted, or sdot, for which their highest bits are flipped back. Elsewhere each panel becomes pairs of int16 in scratch
 * first, which vpmaddwd multiplies; vpmaddubsw would saturate. A quad holds two pairs, of its bytes 0 and 2, and 1 and 3.
 *
 * Sums are the same integers everywhere: only the last one must fit int32, partial ones may wrap. quads.c is compiled without
 * contraction, so that floats are the same, too. */
#ifndef EB_QUADS_H
#define EB_QUADS_H

#include "narrow.h"

/* EB_PARTS: groups of k that a quad makes, of 4 bytes each: itself, or two pairs of int16. EB_SHIFT: what is added to bytes of the
 * weight that are multiplied. */
#if defined(__AVX512VNNI__) || defined(__AVXVNNI__)
enum { EB_PARTS = 1, EB_SHIFT = 128 };
#elif defined(__ARM_FEATURE_DOTPROD)
enum { EB_PARTS = 1, EB_SHIFT = 0 };
#else
enum { EB_PARTS = 2, EB_SHIFT = 0 };
#endif

typedef uint32_t eb_quad __attribute__((may_alias));

/* In front of the groups of a row. */
typedef struct {
    float scale;
    uint32_t correction; /* added to each of its sums */
} __attribute__((may_alias)) quad_header;
/* QUAD_HEADER: what it takes in groups; with tiles, whose rows are read a line at a time, a whole line. QUAD_LEAST_ROWS: fewer
 * take no longer by the instructions for vectors. */
#if defined(EB_AMX)
enum { QUAD_HEADER = 64 / sizeof(eb_quad), QUAD_LEAST_ROWS = 16 };
#else
enum { QUAD_HEADER = sizeof(quad_header) / sizeof(eb_quad), QUAD_LEAST_ROWS = 0 };
#endif

/* sum += the products of a group of x, which is in all lanes, with a group of each of EB_VL columns. */
EB_INLINE void quad_multiply_add(vu *sum, vu x, vu b) {
#if defined(__AVX512VNNI__) /* not by intrinsics: gcc 12 copies a sum before it adds to it */
    __asm__("vpdpbusd %2, %1, %0" : "+v"(*sum) : "v"(b), "v"(x));
#elif defined(__AVXVNNI__)
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(*sum) : "x"(b), "x"(x));
#elif defined(__ARM_FEATURE_DOTPROD)
    *sum = (vu)vdotq_s32((int32x4_t)*sum, (int8x16_t)b, (int8x16_t)x);
#elif defined(__AVX512BW__)
    *sum += (vu)_mm512_madd_epi16((__m512i)x, (__m512i)b);
#elif defined(__AVX2__)
    *sum += (vu)_mm256_madd_epi16((__m256i)x, (__m256i)b);
#elif defined(__SSE2__)
    *sum += (vu)_mm_madd_epi16((__m128i)x, (__m128i)b);
#else
    *sum += (vu)(((vi)(x << 16) >> 16) * ((vi)(b << 16) >> 16)) + (vu)(((vi)x >> 16) * ((vi)b >> 16));
#endif
}

static inline int64_t count_quads(int64_t K) { return eb_ceil_div(K, 4); }

#define multiply_quad_panel EB_PASTE(eb_multiply_quad_panel, __, EB_ISA, , , )
#define write_quad_rows EB_PASTE(eb_write_quad_rows, __, EB_ISA, , , )

/* As multiply_panel: the rows of x are as write_quad_rows wrote them, `b` is a panel of quads, `scales` has EB_NR scales. `wide`
 * has room for the panel as pairs where EB_PARTS is 2. */
void multiply_quad_panel(eb_product *p, eb_quad *wide);

/* Row m of x [M, K] with its scale, as what multiply_quad_panel reads, `QUAD_HEADER + EB_PARTS * count_quads(K)` groups each. */
void write_quad_rows(const int8_t *x, int64_t x_row, int64_t x_k, const float *scale, int64_t scale_row, int64_t M, int64_t K,
                     eb_quad *rows);

/* --- what the kernels share ------------------------------------------------------------------------------------------ */

static inline int64_t quad_row(const product_rows *p) { return QUAD_HEADER + EB_PARTS * count_quads(p->K); }

/* Tiles of a node write rows of x, and its joins multiply them. Call with the tiles of the product in node->tiles. */
static inline eb_status plan_quad_rows(eb_node *node, const product_rows *p, int scale_input) {
    enum { WORTH = 128 * 1024 }; /* elements: about 10 microseconds */
    int64_t scale_row;
    if (p->M < QUAD_LEAST_ROWS) return EB_NOT_APPLICABLE;
    if (!rows_of(eb_input(node, scale_input), &scale_row)) return EB_NEEDS_DENSE;
    if (!node->tiles) return EB_OK;
    node->joins = node->tiles;
    node->tiles = eb_max(1, eb_min(p->M, p->M * p->K / WORTH));
    node->shared_bytes = p->M * quad_row(p) * 4;
    if (EB_PARTS == 2) node->scratch_bytes += EB_PARTS * count_quads(p->K) * EB_NR * 4;
    return EB_OK;
}

/* Runs the tiles of [begin, end) that write rows, and answers the first tile of the product, counted from 0. */
static inline int64_t run_quad_rows(const eb_node *node, const product_rows *p, void *const *bases, int scale_input, int64_t begin,
                                    int64_t end) {
    const eb_tensor *x = eb_input(node, EB_IN_PRODUCT_X), *scale = eb_input(node, scale_input);
    int64_t scale_row = 0;
    rows_of(scale, &scale_row);
    for (int64_t tile = begin; tile < eb_min(end, node->tiles); tile++) {
        const int64_t m = eb_piece(p->M, node->tiles, tile), count = eb_piece(p->M, node->tiles, tile + 1) - m;
        write_quad_rows((const int8_t *)eb_data(x, bases) + m * p->x_row, p->x_row, x->stride[x->rank - 1],
                        (const float *)eb_data(scale, bases) + m * scale_row, scale_row, count, p->K,
                        (eb_quad *)eb_shared(node, bases) + m * quad_row(p));
    }
    return eb_max(0, begin - node->tiles);
}

static inline eb_rows quad_rows(const eb_node *node, const product_rows *p, void *const *bases) {
    const float *first = (const float *)eb_shared(node, bases) + QUAD_HEADER;
    return (eb_rows){first, quad_row(p), 1, EB_PARTS * count_quads(p->K)};
}

#endif
