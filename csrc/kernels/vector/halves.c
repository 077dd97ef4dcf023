/* Products with a weight of halves: implements narrow.h. */
#include "floats16.h"

typedef uint16_t element __attribute__((may_alias));
enum { HAS_SCALES = 0 };

EB_INLINE vf load_elements(const element *p) { return vf_load_halves(p); }

#include "narrow_product.h"

void multiply_half_panel(eb_product *p, const void *panel, const float *scales, float *wide) {
    multiply_narrow_panel(p, panel, scales, wide);
}
