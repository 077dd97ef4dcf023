/* What the kernels of gated_linear share: y = activation(x @ G + g) * (x @ U + u), where W is G and U one after the other,
 * whatever W is stored as. A kernel says how one panel is multiplied.
 *
 * A panel holds one vector of columns of G and, beside it, the same columns of U, so that one micro-tile has both factors
 * of a result: the product is finished on sums that still lie in the first-level cache, and no gate or up projection
 * ever goes to memory.
 */
#ifndef EB_GATED_LINEAR_H
#define EB_GATED_LINEAR_H

#include "product.h"

/* Bytes of the sums of a tile: as many rows as `cut_product` makes at most, rounded up to whole micro-tiles. */
static inline int64_t bytes_of_sums(const product_tiling *p) {
    return p->row_tiles ? (eb_ceil_div(p->rows.M, p->row_tiles) + EB_MR) * EB_NR * 4 : 0;
}

/* The working memory for sums, too. */
static inline eb_status plan_gated_linear(eb_node *node) {
    eb_status status = plan_product(node, EB_VL);
    if (status == EB_OK) node->scratch_bytes = bytes_of_sums(product_tiling_of(node));
    return status;
}

/* sums [rows, EB_NR]: gates, then ups; y [rows, columns]. */
static inline void multiply_out(float *sums, int64_t rows, int64_t columns, eb_activation activation, float *y, int64_t ldy) {
    if (activation) activation(sums, rows, EB_VL, EB_NR);
    for (int64_t m = 0; m < rows; m++, sums += EB_NR, y += ldy) {
        vf product = vf_load(sums) * vf_load(sums + EB_VL);
        if (columns == EB_VL)
            vf_store(y, product);
        else
            vf_store_part(y, product, columns);
    }
}

EB_INLINE void run_gated_panel(const product_run *run, int64_t m, int64_t n, int64_t columns, int64_t next, eb_product *product) {
    const eb_node *node = run->node;
    const product_tiling *p = product_tiling_of(node);
    const float *bias = eb_optional_data(node, EB_IN_GATED_LINEAR_BIAS, run->bases);
    float biases[EB_NR] = {0}, *sums = run->scratch;
    if (bias) {
        memcpy(biases, bias + n, (size_t)columns * 4);
        memcpy(biases + EB_VL, bias + p->rows.N + n, (size_t)columns * 4);
    }
    product->columns = EB_NR;
    product->y = sums;
    product->ldy = EB_NR;
    product->alpha = 1;
    product->bias = biases;
    run->multiply(node, run->bases, (char *)run->scratch + bytes_of_sums(p), n, next, product);
    float *y = (float *)eb_data(eb_output(node), run->bases) + m * p->rows.y_row + n;
    multiply_out(sums, product->M, columns, activations[node->ints[EB_INT_GATED_LINEAR_ACTIVATION]], y, p->rows.y_row);
}

/* Tiles [begin, end) of the product. `multiply` is given the scratch behind the sums. */
EB_INLINE eb_status run_gated_linear(const eb_node *node, void *const *bases, const eb_rows *rows, int64_t begin, int64_t end,
                                     void *scratch, product_multiply *multiply) {
    const product_run run = {node, bases, scratch, multiply};
    return run_panels(&run, rows, begin, end, EB_VL, run_gated_panel);
}

#endif
