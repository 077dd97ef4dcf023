/* Implements quads.h. Compiled without contraction (CMakeLists.txt). */
#include "quads.h"

#include "epilogue.h"

/* --- the product -------------------------------------------------------------------------------------------------- */

typedef eb_quad micro_x, micro_b;
typedef vu micro_factor, micro_sum;

EB_INLINE vu micro_broadcast(const eb_quad *x) { return *x - (vu){0}; }

#if defined(__ARM_FEATURE_DOTPROD)
EB_INLINE vu micro_load(const eb_quad *b) { return (vu)vf_load(b) ^ 0x80808080; }
#else
EB_INLINE vu micro_load(const eb_quad *b) { return (vu)vf_load(b); }
#endif

EB_INLINE void micro_multiply_add(vu *sum, vu x, vu b) { quad_multiply_add(sum, x, b); }

/* Each step is rounded. */
EB_INLINE void micro_finish(const eb_micro *t, vu sum[][2], const int R, const int V) {
    vf y[EB_MR][2];
    EB_UNROLL
    for (int r = 0; r < R; r++) {
        const quad_header *row = (const quad_header *)((const eb_quad *)t->x + r * t->x_row) - 1;
        EB_UNROLL
        for (int v = 0; v < V; v++)
            y[r][v] = __builtin_convertvector((vi)(sum[r][v] + row->correction), vf) * vf_load(t->scales + v * EB_VL) * row->scale;
    }
    finish_sums(t, y, R, V);
}

#if defined(EB_AMX)
#include "amx.h"
#else
#include "micro.h"
#endif

enum { MICRO_DEPTH = 1 << 30 }; /* sums stay integers over all k */
#include "panel.h"

/* A panel of quads as pairs. */
static void widen_panel(const eb_quad *panel, int64_t quads, eb_quad *wide) {
    typedef int16_t halves __attribute__((vector_size(EB_VL * 4)));
    typedef uint16_t bits __attribute__((vector_size(EB_VL * 4)));
    for (int64_t q = 0; q < quads; q++, panel += EB_NR, wide += 2 * EB_NR)
        for (int v = 0; v < EB_NR; v += EB_VL) {
            const bits both = (bits)((vu)vf_load(panel + v) ^ 0x80808080);
            vf_store((float *)wide + v, (vf)((halves)(both << 8) >> 8));
            vf_store((float *)wide + EB_NR + v, (vf)((halves)both >> 8));
        }
}

void multiply_quad_panel(eb_product *p, eb_quad *wide) {
    if (EB_PARTS == 2) {
        widen_panel((const eb_quad *)p->b, p->K / EB_PARTS, wide);
        p->b = (const float *)wide;
        p->next = p->b; /* the next panel is widened first, so there is nothing to fetch */
    }
    multiply_blocks(p);
}

/* --- rows ---------------------------------------------------------------------------------------------------------- */

/* K bytes, and zeros up to a whole quad. */
static void write_row(const int8_t *x, int64_t x_k, int64_t K, int8_t *out) {
    if (x_k == 1)
        memcpy(out, x, (size_t)K);
    else
        for (int64_t k = 0; k < K; k++) out[k] = x[k * x_k];
    memset(out + K, 0, (size_t)(4 * count_quads(K) - K));
}

/* Quads as pairs, in place: from the last on, since they take twice the room. */
static void widen_row(eb_quad *row, int64_t quads) {
    for (int64_t q = quads - 1; q >= 0; q--) {
        int8_t byte[4];
        memcpy(byte, row + q, 4);
        const int16_t pairs[4] = {byte[0], byte[2], byte[1], byte[3]};
        memcpy(row + 2 * q, pairs, 8);
    }
}

/* The sum of the bytes of some quads, by the products with ones. */
static uint32_t sum_bytes(const int8_t *bytes, int64_t quads) {
    vu sums = {0};
    uint32_t sum = 0;
    int64_t q = 0;
    for (; q + EB_VL <= quads; q += EB_VL) quad_multiply_add(&sums, (vu)vf_load((const float *)(bytes + 4 * q)), 0x01010101 - (vu){0});
    for (int v = 0; v < EB_VL; v++) sum += sums[v];
    for (q *= 4; q < 4 * quads; q++) sum += (uint32_t)bytes[q];
    return sum;
}

void write_quad_rows(const int8_t *x, int64_t x_row, int64_t x_k, const float *scale, int64_t scale_row, int64_t M, int64_t K,
                     eb_quad *rows) {
    const int64_t quads = count_quads(K);
    for (int64_t m = 0; m < M; m++, x += x_row, scale += scale_row, rows += QUAD_HEADER + EB_PARTS * quads) {
        int8_t *bytes = (int8_t *)(rows + QUAD_HEADER);
        write_row(x, x_k, K, bytes);
        ((quad_header *)bytes)[-1] = (quad_header){*scale, EB_SHIFT ? -EB_SHIFT * sum_bytes(bytes, quads) : 0};
        if (EB_PARTS == 2) widen_row(rows + QUAD_HEADER, quads);
    }
}
