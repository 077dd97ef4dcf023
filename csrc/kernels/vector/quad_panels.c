/* The packings `byte_quads` and `byte_quad_gates`: bytes w + 128, in fours along k (quads.h). */
#include <stdint.h>

typedef int8_t narrow;
enum { NARROW_GROUP = 4, NARROW_FLIP = -128 };

#include "narrow_panels.h"

const eb_packing quad_panels_packing = {EB_PACKING_NAME("byte_quads"), bytes_of_panels, count_panels, pack_panels, unpack_panels};
const eb_packing quad_gates_packing = {EB_PACKING_NAME("byte_quad_gates"), bytes_of_gates, count_gates, pack_gates, unpack_gates};
