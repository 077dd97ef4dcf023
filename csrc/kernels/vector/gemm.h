/* Products of float matrices, which linear, matmul, attention and convolutions use. gemm.c implements them, once an
 * instruction set.
 *
 *   panel      EB_NR = 2 vectors of columns of b, stored row by row (k), zero-padded to EB_NR columns
 *   micro-tile up to EB_MR rows of x times one panel: its sums stay in registers over a whole block of k
 *
 * x is read through broadcasts, so that its strides are free: a transposed x costs nothing.
 */
#ifndef EB_GEMM_H
#define EB_GEMM_H

#include "activation.h"
#include "../../sharing.h"

/* y [M, columns] = alpha * x [M, K] @ b [K, columns] + bias + residual. y may be the residual.
 * x and b may hold groups of narrower elements instead of floats, as multiply_panel and its relatives say. A group takes 4
 * bytes and counts as one element of x, of b, of K and of their strides.
 * With `x_places`, x is what an implicit product of matrices reads: row m and piece s of k begin at
 * x[x_places[m] + x_pieces[s]], K is the depth of a piece, and b goes on from piece to piece. */
typedef struct {
    int64_t M, columns, K; /* columns <= EB_NR */
    const float *x;
    int64_t x_row, x_k;
    int x_is_near; /* the thread's previous product had the same rows of x, so its second-level cache has them */
    const float *b; /* EB_NR floats can be read at every k, unless `columns` is EB_VL or less: then EB_VL floats */
    int64_t ldb;
    const float *next; /* the packed panel that this thread multiplies after this one, or NULL: the panel behind b */
    float *y;
    int64_t ldy;
    float alpha;
    const float *bias, *residual; /* or NULL */
    int64_t ldr;
    eb_activation activation; /* or NULL */
    float clamp; /* instead of an activation, while the sums are in registers: results go from 0 to this; 0: as they are */
    const int64_t *x_places;  /* or NULL; else x_row is only what most rows lie apart, x_k is 1 and ldb EB_NR */
    const int64_t *x_pieces;
    int64_t pieces; /* with x_places: how many */
    const float *scales;     /* of the columns, of a product of bytes (quads.h) */
    const int64_t *y_places; /* or NULL; else where the rows of y and of the residual begin, which often lie ldy apart */
} eb_product;

/* The instruction set whose kernels of floats and whose packings a file uses: an instruction set that only adds products of
 * narrower elements has none of its own. */
#ifndef EB_FLOAT_ISA
#define EB_FLOAT_ISA EB_ISA
#endif
#define multiply_panel EB_PASTE(eb_multiply_panel, __, EB_FLOAT_ISA, , , )
#define pack_panel EB_PASTE(eb_pack_panel, __, EB_FLOAT_ISA, , , )
#define pack_columns EB_PASTE(eb_pack_columns, __, EB_FLOAT_ISA, , , )

void multiply_panel(const eb_product *p);

/* Columns of b, with element (k, n) at source[k * k_step + n * n_step] (of any alignment), as a panel of K rows. */
void pack_panel(const eb_float_unaligned *source, int64_t k_step, int64_t n_step, int64_t K, int64_t columns,
                float *panel);
/* The same into some columns of a panel; the others are left as they are. */
void pack_columns(const eb_float_unaligned *source, int64_t k_step, int64_t n_step, int64_t K, int64_t columns,
                  float *panel);

/* Columns of a b that is not packed, as `multiply_panel` wants them: where they lie if they are contiguous and `rows`
 * are too few to pay for packing, else packed into scratch (K * EB_NR floats). */
static inline const float *panel_of(const float *source, int64_t k_step, int64_t n_step, int64_t K, int64_t columns,
                             int64_t rows, float *scratch, int64_t *ldb) {
    enum { ROWS_THAT_PAY_FOR_PACKING = 8 };
    if (n_step == 1 && columns % EB_VL == 0 && rows < ROWS_THAT_PAY_FOR_PACKING) {
        *ldb = k_step;
        return source;
    }
    pack_panel(source, k_step, n_step, K, columns, scratch);
    *ldb = EB_NR;
    return scratch;
}

/* How to cut M x N into tiles: rows of whole micro-tiles that stay in L2, beside as many panels as make a tile worth
 * handing out. */
typedef struct {
    int64_t row_tiles, panels_a_tile, column_tiles;
} eb_cut;

static inline eb_cut cut_product(int64_t M, int64_t N, int64_t K) {
    enum {
        HEIGHTS = 10,      /* micro-tiles: 140 rows with AVX-512 */
        WORTH = 512 * 1024 /* multiply-adds: about 10 microseconds */
    };
    eb_cut cut;
    cut.row_tiles = eb_ceil_div(eb_ceil_div(M, EB_MR), HEIGHTS);
    int64_t rows = cut.row_tiles ? eb_ceil_div(M, cut.row_tiles) : 1;
    /* Few rows are bound by reading b, as if they were eight. */
    int64_t panel = eb_max(8, rows) * eb_max(1, K) * EB_NR, panels = eb_ceil_div(N, EB_NR);
    cut.panels_a_tile = eb_max(1, eb_min(panels, WORTH / panel));
    cut.column_tiles = eb_ceil_div(panels, cut.panels_a_tile);
    return cut;
}

/* First row of row tile `i` of `row_tiles`: where a micro-tile of the whole begins, so that all are nearly equal. */
EB_INLINE int64_t row_tile_begin(int64_t M, int64_t row_tiles, int64_t i) {
    int64_t heights = eb_ceil_div(M, EB_MR);
    return eb_piece(M, heights, eb_piece(heights, row_tiles, i));
}

/* [.., columns] as rows of contiguous columns: answers whether it is, and the stride of the rows. */
static inline int rows_of(const eb_tensor *t, int64_t *row_stride) {
    eb_loop rows = eb_loop_axes(t, 0, t->rank - 1);
    *row_stride = rows.stride[0][0];
    return rows.rank == 1;
}

static inline int unit_columns(const eb_tensor *t) { return t->stride[t->rank - 1] == 1 || t->shape[t->rank - 1] <= 1; }

/* What linear and gated_linear plan alike: x [.., K] and y [.., N] as rows, the bias [..] contiguous. */
typedef struct {
    int64_t M, N, K, x_row, y_row;
} product_rows;

/* x as a product reads it: M rows of K elements. */
typedef struct {
    const float *x;
    int64_t row, step, K; /* from row to row, from element to element */
} eb_rows;

/* The floats of x where they lie. */
static inline eb_rows float_rows(const eb_node *node, const product_rows *p, void *const *bases) {
    const eb_tensor *x = eb_input(node, EB_IN_PRODUCT_X);
    return (eb_rows){eb_data(x, bases), p->x_row, x->stride[x->rank - 1], p->K};
}
static inline eb_status plan_product_rows(const eb_node *node, product_rows *p) {
    const eb_tensor *x = eb_input(node, EB_IN_PRODUCT_X), *y = eb_output(node);
    p->N = y->shape[y->rank - 1];
    p->K = x->shape[x->rank - 1];
    p->M = p->N ? eb_size(y) / p->N : 0;
    if (!rows_of(y, &p->y_row) || !unit_columns(y)) return EB_NOT_APPLICABLE;
    if (!rows_of(x, &p->x_row)) return EB_NEEDS_DENSE;
    const eb_tensor *bias = eb_optional_input(node, EB_IN_PRODUCT_BIAS);
    if (bias && !unit_columns(bias)) return EB_NEEDS_DENSE;
    return EB_OK;
}

#endif
