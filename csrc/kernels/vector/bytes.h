/* Products with a weight of 8 bits that has a scale for each column of the result. bytes.c implements them, once an instruction
 * set. The weight is packed into panels of bytes (packings.h), a quarter of the bytes of floats. Few rows are bound by reading
 * them: a micro-tile widens bytes in registers, and multiplies its sums by the scales. For more rows a panel is widened once
 * into scratch, where its elements get their scale, and is multiplied like a panel of floats. Both read the same packed copy. */
#ifndef EB_BYTES_H
#define EB_BYTES_H

#include "gemm.h"

enum { FEW_BYTE_ROWS = 4 };

#define multiply_byte_panel EB_PASTE(eb_multiply_byte_panel, __, EB_ISA, , , )

/* As multiply_panel, but for `b` and `next`: `panel` has the bytes, and `scales` EB_NR scales. `wide` has room for the panel as
 * floats if there are more than FEW_BYTE_ROWS rows. */
void multiply_byte_panel(eb_product *p, const int8_t *panel, const float *scales, float *wide);

static inline int64_t byte_scratch(int64_t M, int64_t K) { return M <= FEW_BYTE_ROWS ? 0 : K * EB_NR * 4; }

/* Scales of `columns` columns from column n on, to `scales`. `input` is the weight's. */
static inline void read_scales(const eb_node *node, void *const *bases, int input, int64_t n, int64_t columns, float *scales) {
    const eb_tensor *scale = eb_input(node, eb_input(node, input)->parts);
    const float *from = (const float *)eb_data(scale, bases) + n * scale->stride[0];
    for (int64_t i = 0; i < columns; i++) scales[i] = from[i * scale->stride[0]];
}

#endif
