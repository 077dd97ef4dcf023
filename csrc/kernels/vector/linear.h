/* What the kernels of linear share: y = activation(alpha * x @ W + bias + residual), whatever W is stored as. A kernel says how
 * one panel of columns is multiplied. */
#ifndef EB_LINEAR_H
#define EB_LINEAR_H

#include "product.h"

/* All but the working memory. */
static inline eb_status plan_linear(eb_node *node) {
    eb_status status = plan_product(node, EB_NR);
    if (status != EB_OK) return status;
    const eb_tensor *residual = eb_optional_input(node, EB_IN_LINEAR_RESIDUAL);
    if (residual && (!rows_of(residual, &edit_product_tiling(node)->residual_row) || !unit_columns(residual)))
        return EB_NEEDS_DENSE;
    return EB_OK;
}

EB_INLINE void run_linear_panel(const product_run *run, int64_t m, int64_t n, int64_t columns, int64_t next, eb_product *product) {
    const eb_node *node = run->node;
    const product_tiling *p = product_tiling_of(node);
    const float *bias = eb_optional_data(node, EB_IN_LINEAR_BIAS, run->bases);
    const float *residual = eb_optional_data(node, EB_IN_LINEAR_RESIDUAL, run->bases);
    const int64_t activation = node->ints[EB_INT_LINEAR_ACTIVATION];
    product->columns = columns;
    product->y = (float *)eb_data(eb_output(node), run->bases) + m * p->rows.y_row + n;
    product->ldy = p->rows.y_row;
    product->alpha = (float)node->reals[EB_REAL_LINEAR_ALPHA];
    product->bias = bias ? bias + n : NULL;
    product->residual = residual ? residual + m * p->residual_row + n : NULL;
    product->ldr = p->residual_row;
    product->clamp = clamp_of(activation);
    product->activation = product->clamp > 0 ? NULL : activations[activation];
    run->multiply(node, run->bases, run->scratch, n, next, product);
}

/* Tiles [begin, end) of the product. */
EB_INLINE eb_status run_linear(const eb_node *node, void *const *bases, const eb_rows *rows, int64_t begin, int64_t end,
                               void *scratch, product_multiply *multiply) {
    const product_run run = {node, bases, scratch, multiply};
    return run_panels(&run, rows, begin, end, EB_NR, run_linear_panel);
}

#endif
