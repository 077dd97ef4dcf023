/* The elementary functions of csrc/kernels/vector/math.h that no op has for itself, open to accuracy.c. Compiled once for
 * each instruction set, as the kernels are, with that set's isa.h included beforehand. */
#include "functions.h"

#include "kernels/vector/math.h"

/* One vector at a time; `count` is a multiple of any vector's length. */
#define FUNCTION(name)                                                                                  \
    static void run_##name(const float *x, float *y, int64_t count) {                                   \
        for (int64_t i = 0; i < count; i += EB_VL) vf_store(y + i, vf_##name(vf_load(x + i)));          \
    }

static vf vf_erfc_clamped(vf x) {
    vf clamped;
    return vf_erfc(x, &clamped);
}

FUNCTION(exp_nonpositive)
FUNCTION(exp2_nonpositive)
FUNCTION(erfc_clamped)

#define TABLE_(isa) functions_##isa
#define TABLE(isa) TABLE_(isa)
const functions TABLE(EB_ISA) = {run_exp_nonpositive, run_exp2_nonpositive, run_erfc_clamped};
