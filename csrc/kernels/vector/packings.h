/* The packing that several kernels use, compiled for each instruction set. It depends on the width of vectors alone, in which
 * its name ends. */
#ifndef EB_PACKINGS_H
#define EB_PACKINGS_H

#include "gemm.h"

#define EB_PACKING_NAME(what) what "_of_" EB_TEXT(EB_VL)

/* A weight as panels (gemm.h). Axis `columns` of the weight becomes the columns of panels, axis `depth` their rows. Each index
 * of the other axes is a tap:
 *
 *   [groups][ceil(columns / groups / EB_NR)][taps][depth][EB_NR], a group's last columns padded with zeros
 *
 * A piece has EB_NR columns of all taps. The third number is how many groups the columns form; 0 means one. */
#define panels_packing EB_PASTE(eb_panels_packing, __, EB_FLOAT_ISA, , , )
extern const eb_packing panels_packing;

/* A matrix of bytes, of bytes in fours (quads.h), of halves, or of bfloat16 in pairs (bfloat.h), as panels, and as the panels of
 * gated_linear: narrow_panels.h. */
#define byte_panels_packing EB_PASTE(eb_byte_panels_packing, __, EB_FLOAT_ISA, , , )
#define byte_gates_packing EB_PASTE(eb_byte_gates_packing, __, EB_FLOAT_ISA, , , )
#define quad_panels_packing EB_PASTE(eb_quad_panels_packing, __, EB_FLOAT_ISA, , , )
#define quad_gates_packing EB_PASTE(eb_quad_gates_packing, __, EB_FLOAT_ISA, , , )
#define half_panels_packing EB_PASTE(eb_half_panels_packing, __, EB_FLOAT_ISA, , , )
#define half_gates_packing EB_PASTE(eb_half_gates_packing, __, EB_FLOAT_ISA, , , )
#define bfloat_panels_packing EB_PASTE(eb_bfloat_panels_packing, __, EB_FLOAT_ISA, , , )
#define bfloat_gates_packing EB_PASTE(eb_bfloat_gates_packing, __, EB_FLOAT_ISA, , , )
extern const eb_packing byte_panels_packing, byte_gates_packing, quad_panels_packing, quad_gates_packing, half_panels_packing,
    half_gates_packing, bfloat_panels_packing, bfloat_gates_packing;

/* The inverse of pack_columns (gemm.h): the first `columns` columns of a panel. */
static inline void unpack_panel(const float *panel, int64_t k_step, int64_t n_step, int64_t K, int64_t columns, float *plain) {
    for (int64_t n = 0; n < columns; n++)
        for (int64_t k = 0; k < K; k++) plain[k * k_step + n * n_step] = panel[k * EB_NR + n];
}

/* `packing` for a matrix, or a weight whose other axes are taps, with its columns along one axis and k along another. */
static inline const eb_packing *choose_packing_of(const eb_packing *packing, int64_t columns, int64_t depth, int64_t *numbers) {
    numbers[0] = columns;
    numbers[1] = depth;
    return packing;
}

#endif
