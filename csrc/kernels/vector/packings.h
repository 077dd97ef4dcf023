/* Layouts of weights that several kernels ask for (eb_packing), once an instruction set. Their widths are those of vectors, so
 * the layouts of instruction sets of one width are the same, and so are their names. */
#ifndef EB_PACKINGS_H
#define EB_PACKINGS_H

#include "gemm.h"

#define EB_PACKING_NAME(what) what "_of_" EB_TEXT(EB_VL)

/* A weight as panels (gemm.h). Axis `columns` of the weight becomes the columns of panels, axis `depth` their rows; the other
 * axes are taps, of which each has panels of its own:
 *
 *   [columns / EB_NR][taps][depth][EB_NR]
 *
 * A piece is all panels of EB_NR columns. */
#define panels_packing EB_PASTE(eb_panels_packing, __, EB_ISA, , , )
extern const eb_packing panels_packing;

/* The inverse of pack_columns (gemm.h): the first `columns` columns of a panel. */
static inline void unpack_panel(const float *panel, int64_t k_step, int64_t n_step, int64_t K, int64_t columns, float *plain) {
    for (int64_t n = 0; n < columns; n++)
        for (int64_t k = 0; k < K; k++) plain[k * k_step + n * n_step] = panel[k * EB_NR + n];
}

static inline const eb_packing *pack_as_panels(int64_t columns, int64_t depth, int64_t *numbers) {
    numbers[0] = columns;
    numbers[1] = depth;
    return &panels_packing;
}

#endif
