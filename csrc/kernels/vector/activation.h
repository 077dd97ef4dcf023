/* The activations of linear: over a tile whose sums lie in the first-level cache, or in registers where they only cut. */
#ifndef EB_ACTIVATION_H
#define EB_ACTIVATION_H

#include "../../ops.h"
#include "math.h"

EB_INLINE vf vf_relu(vf x) { return vf_max(vf_set(0), x); } /* x where it is NaN or -0, as x < 0 ? 0 : x */
EB_INLINE vf vf_relu6(vf x) { return vf_select(x > 6.0f, vf_set(6), vf_relu(x)); }

#define EB_ACTIVATION(name, function)                                                                   \
    static void activate_##name(float *y, int64_t rows, int64_t columns, int64_t ld) {                  \
        for (int64_t m = 0; m < rows; m++, y += ld) {                                                   \
            int64_t n = 0;                                                                              \
            for (; n + EB_VL <= columns; n += EB_VL) vf_store(y + n, function(vf_load(y + n)));         \
            if (n < columns) vf_store_part(y + n, function(vf_load_part(y + n, columns - n)), columns - n); \
        }                                                                                               \
    }
EB_ACTIVATION(relu, vf_relu)
EB_ACTIVATION(gelu, vf_gelu)
EB_ACTIVATION(gelu_tanh, vf_gelu_tanh)
EB_ACTIVATION(silu, vf_silu)
EB_ACTIVATION(tanh, vf_tanh)
EB_ACTIVATION(sigmoid, vf_sigmoid)
EB_ACTIVATION(relu6, vf_relu6)

typedef void (*eb_activation)(float *y, int64_t rows, int64_t columns, int64_t ld);

/* By the value of linear's attribute; NULL for none. */
static const eb_activation activations[] = {
    [EB_ACTIVATION_NONE] = NULL,
    [EB_ACTIVATION_RELU] = activate_relu,
    [EB_ACTIVATION_GELU] = activate_gelu,
    [EB_ACTIVATION_GELU_TANH] = activate_gelu_tanh,
    [EB_ACTIVATION_SILU] = activate_silu,
    [EB_ACTIVATION_TANH] = activate_tanh,
    [EB_ACTIVATION_SIGMOID] = activate_sigmoid,
    [EB_ACTIVATION_RELU6] = activate_relu6,
};

/* Where an activation does no more than cut at 0 and above: the largest value that it lets through; 0 for any other. */
static inline float clamp_of(int64_t activation) {
    return activation == EB_ACTIVATION_RELU ? INFINITY : activation == EB_ACTIVATION_RELU6 ? 6.0f : 0.0f;
}

#endif
