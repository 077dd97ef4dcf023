/* attention_decode.h for keys and values of floats. */
#include "vec.h"

typedef float element;
enum { ELEMENT_TYPE = EB_F32 };

EB_INLINE vf load_elements(const float *p) { return vf_load(p); }
EB_INLINE vf load_part(const float *p, int64_t count) { return vf_load_part(p, count); }

#include "attention_decode.h"

const eb_kernel EB_SYMBOL(attention, decode) = {plan, run};
