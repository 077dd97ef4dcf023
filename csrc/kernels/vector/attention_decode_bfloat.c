/* attention_decode.h for keys and values of bfloat16, as `Config.states` stores them. */
#include "floats16.h"

typedef uint16_t element __attribute__((may_alias));
enum { ELEMENT_TYPE = EB_BF16 };

EB_INLINE vf load_elements(const element *p) { return vf_load_bfloats(p); }
EB_INLINE vf load_part(const element *p, int64_t count) {
    element elements[EB_VL] = {0};
    memcpy(elements, p, (size_t)count * sizeof *p);
    return vf_load_bfloats(elements);
}

#include "attention_decode.h"

const eb_kernel EB_PASTE(any_attention, __, EB_ISA, _, decode, ) = {plan, run};
