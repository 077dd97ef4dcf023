/* Along which elements of an axis grid_sample reads, and how much of each, as eager PyTorch finds them: in steps that are
 * rounded to float32 unless `wide`, because at the border of two elements another rounding would choose the other one. */
#ifndef EB_GRID_H
#define EB_GRID_H

#include <math.h>
#include <stdint.h>

#include "ops.h"

typedef struct {
    double last, scale; /* the last element; elements from the centre to an end */
    double low, span;   /* where a reflection turns, and its period */
} eb_grid_axis;

static inline eb_grid_axis eb_grid_axis_of(int64_t size, int64_t align_corners) {
    const double length = (double)(align_corners ? size - 1 : size);
    return (eb_grid_axis){(double)size - 1, length / 2, align_corners ? 0 : -0.5, 2 * length};
}

static inline double eb_grid_round(double value, const int wide) { return wide ? value : (double)(float)value; }

/* A coordinate of -1 to 1 in elements. */
static inline double eb_grid_place(eb_grid_axis a, double at, const int wide) {
    return eb_grid_round(eb_grid_round(eb_grid_round(at + 1, wide) * a.scale, wide) + a.low, wide);
}

/* A place outside of the axis, by the padding, inside of it; NaN becomes 0. */
static inline double eb_grid_inside(eb_grid_axis a, double place, const int64_t padding, const int wide) {
    if (padding == EB_GRID_SAMPLE_PADDING_ZEROS) return place;
    if (padding == EB_GRID_SAMPLE_PADDING_REFLECTION) {
        const double away = fabs(eb_grid_round(place - a.low, wide)), turns = trunc(eb_grid_round(away / a.span, wide));
        const double rest = eb_grid_round(away - eb_grid_round(turns * a.span, wide), wide);
        const double back = eb_grid_round(a.span - rest, wide);
        place = eb_grid_round((rest < back ? rest : back) + a.low, wide);
    }
    return !(place > 0) ? 0 : place < a.last ? place : a.last;
}

static inline int eb_grid_taps(int64_t mode) {
    return mode == EB_GRID_SAMPLE_MODE_NEAREST ? 1 : mode == EB_GRID_SAMPLE_MODE_BILINEAR ? 2 : 4;
}

/* Where tap `t` of a place reads, and its weight. An answer below 0, behind the last element or NaN: it reads a zero. */
static inline double eb_grid_tap(eb_grid_axis a, double place, const int64_t mode, const int64_t padding, const int wide,
                                 const int t, double *weight) {
    if (mode == EB_GRID_SAMPLE_MODE_BICUBIC) { /* Keys's cubic (1981) */
        const double first = floor(place), d = fabs(place - first - (t - 1));
        const double near = (1.25 * d - 2.25) * d * d + 1, far = ((-0.75 * d + 3.75) * d - 6) * d + 3;
        *weight = t == 1 || t == 2 ? near : far;
        return eb_grid_inside(a, first + (t - 1), padding, wide);
    }
    const double inside = eb_grid_inside(a, place, padding, wide), first = floor(inside);
    *weight = mode == EB_GRID_SAMPLE_MODE_NEAREST ? 1 : t ? inside - first : 1 - (inside - first);
    return mode == EB_GRID_SAMPLE_MODE_NEAREST ? rint(inside) : first + t;
}

#endif
