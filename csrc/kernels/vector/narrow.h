/* Products of floats with a constant weight whose elements are narrower and become floats before they are multiplied: halves
 * (float16), or bytes with a scale for each column of the result. narrow_product.h implements them, once for
 * each of these types and each instruction set. The weight is packed into panels of its elements (narrow_panels.h), a half or a
 * quarter of the bytes of floats. Few rows are bound by reading them: a micro-tile widens elements in registers, and multiplies
 * its sums by the scales. For more rows a panel is widened once into scratch, where its elements get their scale, and is multiplied
 * like a panel of floats. Both read the same packed copy. */
#ifndef EB_NARROW_H
#define EB_NARROW_H

#include "gemm.h"
#include "packings.h"

enum { FEW_NARROW_ROWS = 4 };

#define multiply_byte_panel EB_PASTE(eb_multiply_byte_panel, __, EB_ISA, , , )
#define multiply_half_panel EB_PASTE(eb_multiply_half_panel, __, EB_ISA, , , )

/* As multiply_panel, but for `b` and `next`: `panel` has the bytes, and `scales` EB_NR scales. `wide` has room for the panel as
 * floats if there are more than FEW_NARROW_ROWS rows. */
void multiply_byte_panel(eb_product *p, const void *panel, const float *scales, float *wide);

/* The same for halves, which have no scales. */
void multiply_half_panel(eb_product *p, const void *panel, const float *scales, float *wide);

static inline int64_t narrow_scratch(int64_t M, int64_t K) { return M <= FEW_NARROW_ROWS ? 0 : K * EB_NR * 4; }

/* Scales of `columns` columns from column n on, to `scales`. `input` is the weight's. */
static inline void read_scales(const eb_node *node, void *const *bases, int input, int64_t n, int64_t columns, float *scales) {
    const eb_tensor *scale = eb_input(node, eb_input(node, input)->parts);
    const float *from = (const float *)eb_data(scale, bases) + n * scale->stride[0];
    for (int64_t i = 0; i < columns; i++) scales[i] = from[i * scale->stride[0]];
}

/* The same for a panel of gates, of a weight of 2 * N columns: EB_VL from column n on, and as many from N + n on. */
static inline void read_gate_scales(const eb_node *node, void *const *bases, int64_t N, int64_t n, float *scales) {
    memset(scales, 0, EB_NR * 4);
    for (int half = 0; half < 2; half++)
        read_scales(node, bases, EB_IN_GATED_LINEAR_WEIGHT, half * N + n, eb_min(EB_VL, N - n), scales + half * EB_VL);
}

/* --- what the kernels share ---------------------------------------------------------------------------------------- */

/* Whether a weight is packed, and its scales, if it has any, are for the indices of axis `columns`. */
static inline int is_narrow_weight(const eb_tensor *w, int columns) {
    return w->is_packed && (eb_encoding_describe(w->encoding).per != EB_PER_CHANNEL || w->axis == columns);
}

/* How the elements of a weight are read. */
typedef struct {
    int64_t bytes;  /* of an element */
    int has_scales;
    const eb_packing *panels, *gates;
    void (*multiply)(eb_product *p, const void *panel, const float *scales, float *wide);
} eb_narrow;

static inline eb_narrow describe_narrow(const eb_tensor *w) {
    if (eb_encoding_describe(w->encoding).stored == EB_F16)
        return (eb_narrow){2, 0, &half_panels_packing, &half_gates_packing, multiply_half_panel};
    return (eb_narrow){1, 1, &byte_panels_packing, &byte_gates_packing, multiply_byte_panel};
}

#endif
