/* The activations of an epilogue, in double. linear, gated_linear and conv number them alike. */
#ifndef EB_ACTIVATE_H
#define EB_ACTIVATE_H

#include <math.h>
#include <stdint.h>

#include "../ops.h"

static inline double eb_activate(int64_t activation, double v) {
    switch (activation) {
    case EB_ACTIVATION_RELU: return v < 0 ? 0 : v;
    case EB_ACTIVATION_GELU: return 0.5 * v * (1 + erf(v * 0.70710678118654752440));
    case EB_ACTIVATION_GELU_TANH: return 0.5 * v * (1 + tanh(0.79788456080286535588 * (v + 0.044715 * v * v * v)));
    case EB_ACTIVATION_SILU: return v / (1 + exp(-v));
    case EB_ACTIVATION_TANH: return tanh(v);
    case EB_ACTIVATION_SIGMOID: return 1 / (1 + exp(-v));
    case EB_ACTIVATION_RELU6: return v < 0 ? 0 : v > 6 ? 6 : v;
    default: return v;
    }
}

#endif
