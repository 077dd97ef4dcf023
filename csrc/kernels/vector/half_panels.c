/* The packings `half_panels` and `half_gates`: implements packings.h. */
#include <stdint.h>

typedef uint16_t narrow __attribute__((aligned(1), may_alias)); /* weights in a file lie anywhere */
enum { NARROW_GROUP = 1, NARROW_FLIP = 0 };

#include "narrow_panels.h"

const eb_packing half_panels_packing = {EB_PACKING_NAME("half_panels"), bytes_of_panels, count_panels, pack_panels, unpack_panels};
const eb_packing half_gates_packing = {EB_PACKING_NAME("half_gates"), bytes_of_gates, count_gates, pack_gates, unpack_gates};
