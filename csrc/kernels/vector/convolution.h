/* What every vector kernel of conv asks of its operands. */
#ifndef EB_CONVOLUTION_H
#define EB_CONVOLUTION_H

#include "../../engine.h"
#include "../../iterate.h"

/* Floats, a packed weight, dense images, bias and residual. */
static inline eb_status check_conv_operands(const eb_node *node) {
    for (int i = 0; i <= node->n_inputs; i++)
        if (node->operands[i].dtype != EB_F32 && node->operands[i].dtype >= 0) return EB_NOT_APPLICABLE;
    if (!eb_input(node, 1)->is_packed || !eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    for (int i = 0; i < node->n_inputs; i++)
        if (i != 1 && eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    return EB_OK;
}

#endif
