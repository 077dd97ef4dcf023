/* The packings `byte_panels` and `byte_gates`: implements packings.h. */
#include <stdint.h>

typedef int8_t narrow;
enum { NARROW_GROUP = 1, NARROW_FLIP = 0 };

#include "narrow_panels.h"

const eb_packing byte_panels_packing = {EB_PACKING_NAME("byte_panels"), bytes_of_panels, count_panels, pack_panels, unpack_panels};
const eb_packing byte_gates_packing = {EB_PACKING_NAME("byte_gates"), bytes_of_gates, count_gates, pack_gates, unpack_gates};
