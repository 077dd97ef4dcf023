/* The elements of weights in every encoding, and the factors of products of floats: what engine/encodings.py and
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

/* --- factors of products of floats -------------------------------------------------------------------------------- */

/* A factor as the arithmetic reads it. */
static inline double eb_factor(int64_t compute, double element) {
    return compute == EB_COMPUTE_BFLOAT16 ? eb_from_bf16(eb_to_bf16(element)) : element;
}

/* `count` factors, elements of a tensor that is not encoded, of type `dtype`, to `line`. */
static inline void eb_plain_line(int64_t compute, int32_t dtype, const void *data, int64_t offset, int64_t step, int64_t count,
                                 double *line) {
    for (int64_t k = 0; k < count; k++) line[k] = eb_factor(compute, eb_load_real(dtype, data, offset + k * step));
}

/* The factors along `axis` of a weight of two axes, at index `other` of the other axis, to `line`. */
static inline void eb_weight_line(int64_t compute, const eb_weight *w, int axis, int64_t other, double *line) {
    const int64_t count = eb_decoded_size(w->t, axis);
    int64_t at[2] = {other, other};
    for (at[axis] = 0; at[axis] < count; at[axis]++) line[at[axis]] = eb_factor(compute, eb_element_at(w, at));
}

static inline double eb_dot(const double *row, const double *column, int64_t count) {
    double total = 0;
    for (int64_t k = 0; k < count; k++) total += row[k] * column[k];
    return total;
}

#endif
