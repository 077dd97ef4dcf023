/* Windows over the spatial axes of x [N, C, *S]: what conv and pooling have in common. Fewer than three spatial axes
 * are read as three, those in front of size 1. */
#ifndef EB_WINDOW_H
#define EB_WINDOW_H

#include "element.h"

enum { EB_SPATIAL = 3 };

typedef struct {
    int64_t in[EB_SPATIAL], out[EB_SPATIAL], kernel[EB_SPATIAL];
    int64_t stride[EB_SPATIAL], low[EB_SPATIAL], high[EB_SPATIAL], dilation[EB_SPATIAL];
    int64_t x_step[EB_SPATIAL], y_step[EB_SPATIAL];
} eb_window;

/* `t` with its channels on axis 1, where they are the last one. */
static inline eb_tensor eb_channels_first(const eb_tensor *t, int channels_last) {
    eb_tensor moved = *t;
    for (int axis = 1; axis < t->rank && channels_last; axis++) {
        int from = axis == 1 ? t->rank - 1 : axis - 1;
        moved.shape[axis] = t->shape[from];
        moved.stride[axis] = t->stride[from];
    }
    return moved;
}

/* The spatial axes of x and y; kernel, stride, dilation 1 and padding 0 until eb_window_set says otherwise. */
static inline eb_window eb_window_new(const eb_tensor *x, const eb_tensor *y) {
    eb_window w;
    for (int a = 0; a < EB_SPATIAL; a++) {
        int own = a + x->rank - EB_SPATIAL; /* axes 0 and 1 are batch and channel */
        int present = own >= 2;
        w.in[a] = present ? x->shape[own] : 1;
        w.out[a] = present ? y->shape[own] : 1;
        w.x_step[a] = present ? x->stride[own] : 0;
        w.y_step[a] = present ? y->stride[own] : 0;
        w.kernel[a] = w.stride[a] = w.dilation[a] = 1;
        w.low[a] = w.high[a] = 0;
    }
    return w;
}

/* Fill `field` of the window from an attribute with one number a spatial axis. */
static inline void eb_window_set(int64_t *field, const int64_t *numbers, int rank) {
    for (int a = 0; a < rank - 2; a++) field[a + EB_SPATIAL + 2 - rank] = numbers[a];
}

/* An element of the result. */
typedef struct {
    int64_t n, channel, at[EB_SPATIAL];
} eb_place;

/* Element `flat` of the result in row-major order. */
static inline eb_place eb_place_of(const eb_window *w, int64_t channels, int64_t flat) {
    eb_place p;
    for (int a = EB_SPATIAL - 1; a >= 0; a--) {
        p.at[a] = flat % w->out[a];
        flat /= w->out[a];
    }
    p.channel = flat % channels;
    p.n = flat / channels;
    return p;
}

/* Where `p` lies in `t`, whose spatial steps are `step`. */
static inline int64_t eb_place_offset(const eb_tensor *t, const int64_t *step, const eb_place *p) {
    int64_t offset = p->n * t->stride[0] + p->channel * t->stride[1];
    for (int a = 0; a < EB_SPATIAL; a++) offset += p->at[a] * step[a];
    return offset;
}

#endif
