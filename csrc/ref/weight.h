/* The elements of weights in every encoding, and the factors of products in every arithmetic: what engine/encodings.py and
 * engine/ops/arithmetic.py define. Coordinates are those of the decoded tensor. */
#ifndef EB_WEIGHT_H
#define EB_WEIGHT_H

#include "../encodings.h"
#include "../ops.h"
#include "element.h"

typedef struct {
    const eb_tensor *t;
    const void *data;
    const eb_tensor *scale_of, *zero_of; /* NULL: the encoding has none */
    const void *scale, *zero;
    eb_encoding how;
    int32_t dtype; /* of the elements */
} eb_weight;

/* Input `input` of a node, whose elements have type `dtype`. */
static inline eb_weight eb_weight_of(const eb_node *node, void *const *bases, int input, int32_t dtype) {
    const eb_tensor *t = eb_input(node, input);
    eb_weight w = {.t = t, .data = eb_data(t, bases), .how = eb_encoding_describe(t->encoding), .dtype = dtype};
    if (w.how.per != EB_PER_ELEMENT) {
        w.scale_of = eb_input(node, t->parts);
        w.scale = eb_data(w.scale_of, bases);
    }
    if (w.how.zero == EB_ZERO_INTEGER || w.how.zero == EB_ZERO_MINIMUM) {
        w.zero_of = eb_input(node, t->parts + 1);
        w.zero = eb_data(w.zero_of, bases);
    }
    return w;
}

static inline int eb_is_encoded(const eb_tensor *t) { return t->encoding != 0; }

/* Offset in `t` (scales or zero points) of the block that holds element `at`. */
static inline int64_t eb_block_at(const eb_weight *w, const eb_tensor *t, const int64_t *at) {
    if (w->how.per == EB_PER_TENSOR) return 0;
    if (w->how.per == EB_PER_CHANNEL) return at[w->t->axis] * t->stride[0];
    int64_t offset = 0;
    for (int axis = 0; axis < t->rank; axis++)
        offset += (axis == w->t->axis ? at[axis] / w->how.group : at[axis]) * t->stride[axis];
    return offset;
}

static inline double eb_scale_at(const eb_weight *w, const int64_t *at) {
    return eb_load_real(w->scale_of->dtype, w->scale, eb_block_at(w, w->scale_of, at));
}

/* The minimum that is added after the multiplication by the scale; 0 for other encodings. */
static inline double eb_minimum_at(const eb_weight *w, const int64_t *at) {
    if (w->how.zero != EB_ZERO_MINIMUM) return 0;
    return eb_load_real(w->zero_of->dtype, w->zero, eb_block_at(w, w->zero_of, at));
}

/* The integer that the scale multiplies. */
static inline int64_t eb_integer_at(const eb_weight *w, const int64_t *at) {
    int64_t offset = 0, integer;
    for (int axis = 0; axis < w->t->rank; axis++)
        offset += (w->how.bits == 4 && axis == w->t->axis ? at[axis] / 2 : at[axis]) * w->t->stride[axis];
    integer = eb_load_int(w->how.stored, w->data, offset);
    if (w->how.bits == 4) {
        integer = integer >> (at[w->t->axis] % 2 * 4) & 15;
        if (w->how.low < 0 && integer > w->how.high) integer -= 16;
    }
    if (w->how.zero == EB_ZERO_MIDDLE) integer -= (w->how.low + w->how.high + 1) / 2;
    if (w->how.zero == EB_ZERO_INTEGER) integer -= eb_load_int(w->zero_of->dtype, w->zero, eb_block_at(w, w->zero_of, at));
    return integer;
}

static inline double eb_rounded(int32_t dtype, double value) {
    double rounded = 0; /* large enough for every type */
    eb_store_real(dtype, &rounded, 0, value);
    return eb_load_real(dtype, &rounded, 0);
}

/* An element, rounded once where it is encoded. */
static inline double eb_element_at(const eb_weight *w, const int64_t *at) {
    if (!eb_is_encoded(w->t)) return eb_load_real(w->dtype, w->data, eb_offset_at(w->t, at));
    if (w->how.per == EB_PER_ELEMENT) return eb_rounded(w->dtype, eb_load_real(w->how.stored, w->data, eb_offset_at(w->t, at)));
    double exact = (double)eb_integer_at(w, at) * eb_scale_at(w, at);
    if (w->how.zero == EB_ZERO_MINIMUM) exact += eb_minimum_at(w, at); /* not + 0, which would turn -0 into 0 */
    return eb_rounded(w->dtype, exact);
}

/* --- factors of products ------------------------------------------------------------------------------------------ */

/* One factor of a dot product: a row or a column. For EB_COMPUTE_INT8: integers, with a scale and perhaps a minimum for each
 * `block` of them. */
typedef struct {
    int64_t count, block;
    const double *numbers, *scales, *least;
} eb_line;

/* The scale of `count` floats that are quantised together: NaN where one of them is not finite. */
static inline float eb_dynamic_scale(float most, int is_finite) {
    if (!is_finite) return NAN;
    float scale = most / 127;
    return scale == 0 ? 1 : scale;
}

static inline double eb_quantised(float value, float scale) {
    return isnan(scale) ? 0 : fmax(-127, fmin(127, rintf(value / scale)));
}

/* A factor as the arithmetic reads it, where that is not EB_COMPUTE_INT8. */
static inline double eb_factor(int64_t compute, double element) {
    return compute == EB_COMPUTE_BFLOAT16 ? eb_from_bf16(eb_to_bf16(element)) : element;
}

/* Doubles of memory that a line of `count` numbers takes: at most one scale and one minimum a number. */
static inline int64_t eb_line_room(int64_t count) { return 3 * eb_max(1, count); }

/* The line of elements of a tensor that is not encoded, of type `dtype`, in `room`. */
static inline eb_line eb_plain_line(int64_t compute, int32_t dtype, const void *data, int64_t offset, int64_t step,
                                    int64_t count, double *room) {
    double *numbers = room, *scale = room + count;
    float most = 0;
    int is_finite = 1;
    for (int64_t k = 0; k < count; k++) numbers[k] = eb_load_real(dtype, data, offset + k * step);
    if (compute != EB_COMPUTE_INT8) {
        for (int64_t k = 0; k < count; k++) numbers[k] = eb_factor(compute, numbers[k]);
        return (eb_line){count, count, numbers};
    }
    for (int64_t k = 0; k < count; k++) {
        most = fmaxf(most, fabsf((float)numbers[k]));
        is_finite &= isfinite((float)numbers[k]);
    }
    const float chosen = eb_dynamic_scale(most, is_finite);
    for (int64_t k = 0; k < count; k++) numbers[k] = eb_quantised((float)numbers[k], chosen);
    *scale = chosen;
    return (eb_line){count, count, numbers, scale, NULL};
}

/* The line along `axis` of a weight of two axes, at index `other` of the other axis, in `room`. */
static inline eb_line eb_weight_line(int64_t compute, const eb_weight *w, int axis, int64_t other, double *room) {
    const int64_t count = eb_decoded_size(w->t, axis);
    int64_t at[2] = {other, other};
    at[axis] = 0;
    if (!eb_is_encoded(w->t))
        return eb_plain_line(compute, w->dtype, w->data, eb_offset_at(w->t, at), w->t->stride[axis], count, room);
    double *numbers = room, *scales = room + count, *least = room + 2 * count;
    if (compute != EB_COMPUTE_INT8) {
        for (int64_t k = 0; k < count; k++) {
            at[axis] = k;
            numbers[k] = eb_factor(compute, eb_element_at(w, at));
        }
        return (eb_line){count, count, numbers};
    }
    const int64_t block = w->how.per == EB_PER_GROUP && w->t->axis == axis ? w->how.group : count;
    for (int64_t k = 0; k < count; k++) {
        at[axis] = k;
        numbers[k] = (double)eb_integer_at(w, at);
        if (k % block) continue;
        scales[k / block] = eb_scale_at(w, at);
        least[k / block] = eb_minimum_at(w, at);
    }
    return (eb_line){count, block, numbers, scales, w->how.zero == EB_ZERO_MINIMUM ? least : NULL};
}

/* The sum of the products of a row, which has one block, and a column. The sums of integers are exact in double. */
static inline double eb_dot(int64_t compute, const eb_line *row, const eb_line *column) {
    double total = 0;
    if (compute != EB_COMPUTE_INT8) {
        for (int64_t k = 0; k < row->count; k++) total += row->numbers[k] * column->numbers[k];
        return total;
    }
    for (int64_t first = 0; first < row->count; first += column->block) {
        double products = 0, sum = 0, part;
        for (int64_t k = first; k < first + column->block; k++) {
            products += row->numbers[k] * column->numbers[k];
            sum += row->numbers[k];
        }
        part = products * column->scales[first / column->block];
        if (column->least) part += sum * column->least[first / column->block];
        total += part;
    }
    return row->count ? *row->scales * total : 0;
}

#endif
