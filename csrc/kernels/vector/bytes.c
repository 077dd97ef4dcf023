/* Products with a weight of bytes: implements narrow.h. */
#include "vec.h"

typedef int8_t element;
enum { HAS_SCALES = 1 };

EB_INLINE vf load_elements(const int8_t *p) { return vf_load_bytes(p); }

#include "narrow_product.h"

void multiply_byte_panel(eb_product *p, const void *panel, const float *scales, float *wide) {
    multiply_narrow_panel(p, panel, scales, wide);
}
