/* What vector kernels of conv and conv_transpose have in common. */
#ifndef EB_CONVOLUTION_H
#define EB_CONVOLUTION_H

#include "../../engine.h"
#include "../../iterate.h"
#include "../../ops.h"

/* Three spatial axes; fewer are read as three, those that are not there of size 1. */
enum { PLANE, ROW, COLUMN, AXES };

/* Axis `axis` of `rank - 2` spatial ones, as a number of its attribute or of a shape; -1 for one that is not there. One
 * axis is a column of pictures one place wide, so that its tiles are short, too. */
static inline int axis_of(int rank, int axis) { return rank == 3 ? (axis == ROW ? 0 : -1) : axis + rank - 5; }

/* A packed weight, dense images, bias and residual. */
static inline eb_status check_conv_operands(const eb_node *node) {
    if (!eb_input(node, EB_IN_CONVOLUTION_WEIGHT)->is_packed || !eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    for (int i = 0; i < node->n_inputs; i++)
        if (i != EB_IN_CONVOLUTION_WEIGHT && eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    return EB_OK;
}

#endif
