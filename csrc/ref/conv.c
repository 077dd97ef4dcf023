/* Reference of conv and conv_transpose: every element of the result alone, its sum in double. */
#include "activate.h"
#include "weight.h"
#include "window.h"

static eb_status plan_tiles(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_CONVOLUTION_X), *weight = eb_input(node, EB_IN_CONVOLUTION_WEIGHT);
    if (!eb_is_real(x->dtype) || (!eb_is_encoded(weight) && weight->dtype != x->dtype) || weight->is_packed)
        return EB_NOT_APPLICABLE;
    if (node->ints[EB_INT_CONVOLUTION_GROUPS] < 1) return EB_NOT_APPLICABLE;
    node->tiles = eb_tile_count(eb_size(eb_output(node)), eb_size(weight) / eb_max(1, weight->shape[0]));
    return EB_OK;
}

typedef struct {
    eb_window w;
    int64_t tap_step[EB_SPATIAL]; /* of a weight that is not encoded */
    int64_t groups;
} problem;

static problem describe(const eb_node *node, const eb_tensor *x, const eb_tensor *y) {
    const eb_tensor *weight = eb_input(node, EB_IN_CONVOLUTION_WEIGHT);
    problem p = {.w = eb_window_new(x, y), .groups = node->ints[EB_INT_CONVOLUTION_GROUPS]};
    eb_window_set(p.w.stride, &node->ints[EB_INT_CONVOLUTION_STRIDE], x->rank);
    eb_window_set(p.w.low, &node->ints[EB_INT_CONVOLUTION_LOW], x->rank);
    eb_window_set(p.w.dilation, &node->ints[EB_INT_CONVOLUTION_DILATION], x->rank);
    int64_t kernel[EB_MAX_RANK];
    for (int axis = 2; axis < weight->rank; axis++) kernel[axis] = eb_decoded_size(weight, axis);
    eb_window_set(p.w.kernel, &kernel[2], x->rank);
    eb_window_set(p.tap_step, &weight->stride[2], x->rank);
    return p;
}

static double bias_of(const eb_node *node, void *const *bases, int64_t channel) {
    if (!eb_is_present(node, EB_IN_CONVOLUTION_BIAS)) return 0;
    const eb_tensor *bias = eb_input(node, EB_IN_CONVOLUTION_BIAS);
    return eb_load_real(bias->dtype, eb_data(bias, bases), channel * bias->stride[0]);
}

/* The images of a node, as if their channels were on axis 1. */
typedef struct {
    eb_tensor x, y, residual; /* residual: only if the node has one */
} images;

static images images_of(const eb_node *node) {
    const int last = node->ints[EB_INT_CONVOLUTION_CHANNELS_LAST] != 0, adds = eb_is_present(node, EB_IN_CONVOLUTION_RESIDUAL);
    return (images){eb_channels_first(eb_input(node, EB_IN_CONVOLUTION_X), last), eb_channels_first(eb_output(node), last),
                    eb_channels_first(adds ? eb_input(node, EB_IN_CONVOLUTION_RESIDUAL) : eb_output(node), last)};
}

/* Bias, residual and activation of the sum at a place, and out. */
static void finish(const eb_node *node, void *const *bases, const problem *p, const images *i, const eb_place *at, double sum) {
    sum += bias_of(node, bases, at->channel);
    if (eb_is_present(node, EB_IN_CONVOLUTION_RESIDUAL)) {
        const eb_tensor *residual = &i->residual;
        int64_t place = at->n * residual->stride[0] + at->channel * residual->stride[1];
        for (int a = 2; a < residual->rank; a++) place += at->at[a + EB_SPATIAL - residual->rank] * residual->stride[a];
        sum += eb_load_real(residual->dtype, eb_data(residual, bases), place);
    }
    eb_store_real(i->y.dtype, eb_data(&i->y, bases), eb_place_offset(&i->y, p->w.y_step, at),
                  eb_activate(node->ints[EB_INT_CONVOLUTION_ACTIVATION], sum));
}

/* Elements of a weight that make one channel of the result: [channels, *kernel]. */
static int64_t count_taps(const eb_tensor *weight) {
    int64_t taps = 1;
    for (int axis = 1; axis < weight->rank; axis++) taps *= eb_decoded_size(weight, axis);
    return taps;
}

/* Each tile has room for the taps of one channel. */
static eb_status plan_conv(eb_node *node) {
    eb_status status = plan_tiles(node);
    if (status != EB_OK) return status;
    node->scratch_bytes = count_taps(eb_input(node, EB_IN_CONVOLUTION_WEIGHT)) * 8;
    return EB_OK;
}

/* The taps of channel `o` as the arithmetic reads them. */
static void read_taps(const eb_weight *w, int64_t compute, int64_t o, double *taps) {
    int64_t at[EB_MAX_RANK] = {o}, size[EB_MAX_RANK], count = count_taps(w->t);
    for (int axis = 0; axis < w->t->rank; axis++) size[axis] = eb_decoded_size(w->t, axis);
    for (int64_t i = 0, left = 0; i < count; left = ++i) {
        for (int axis = w->t->rank - 1; axis > 0; left /= size[axis--]) at[axis] = left % size[axis];
        taps[i] = eb_factor(compute, eb_element_at(w, at));
    }
}

/* How elements of x are read. */
typedef struct {
    int32_t dtype;
    const void *data;
    int64_t compute;
} pixels;

static double read_pixel(const pixels *x, int64_t at) {
    return eb_factor(x->compute, eb_load_real(x->dtype, x->data, at));
}

/* One channel of x under the taps of one channel of the kernel. Elements of the padding are zeros that count: an infinite
 * weight makes NaN of them. */
static double conv_channel(const problem *p, const eb_place *y, const pixels *x, int64_t x_at, const double *taps) {
    const eb_window *w = &p->w;
    double sum = 0;
    for (int64_t i = 0; i < w->kernel[0]; i++)
        for (int64_t j = 0; j < w->kernel[1]; j++)
            for (int64_t k = 0; k < w->kernel[2]; k++) {
                int64_t tap[EB_SPATIAL] = {i, j, k}, at = x_at, inside = 1;
                for (int a = 0; a < EB_SPATIAL; a++) {
                    int64_t place = y->at[a] * w->stride[a] - w->low[a] + tap[a] * w->dilation[a];
                    inside &= place >= 0 && place < w->in[a];
                    if (inside) at += place * w->x_step[a]; /* outside the product may overflow */
                }
                sum += (inside ? read_pixel(x, at) : 0) * *taps++;
            }
    return sum;
}

static eb_status run_conv(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const images i = images_of(node);
    const eb_tensor *x = &i.x, *y = &i.y;
    const eb_weight weight = eb_weight_of(node, bases, EB_IN_CONVOLUTION_WEIGHT, x->dtype);
    problem p = describe(node, x, y);
    pixels source = {x->dtype, eb_data(x, bases), node->ints[EB_INT_CONV_COMPUTE]};
    double *taps = scratch;
    int64_t count = eb_size(y), channels = y->shape[1], each_out = channels / p.groups;
    int64_t each_in = eb_decoded_size(weight.t, 1), area = EB_MULTIPLY(p.w.kernel[0], p.w.kernel[1], p.w.kernel[2]);
    int64_t channel = -1; /* of `taps` */
    for (int64_t flat = eb_piece(count, node->tiles, begin); flat < eb_piece(count, node->tiles, end); flat++) {
        eb_place at = eb_place_of(&p.w, channels, flat);
        if (at.channel != channel) read_taps(&weight, source.compute, channel = at.channel, taps);
        double sum = 0;
        for (int64_t c = 0; c < each_in; c++)
            sum += conv_channel(&p, &at, &source, at.n * x->stride[0] + (at.channel / each_out * each_in + c) * x->stride[1],
                                taps + c * area);
        finish(node, bases, &p, &i, &at, sum);
    }
    return EB_OK;
}
const eb_kernel any_anyw_conv__generic_reference = {plan_conv, run_conv};

/* --- conv_transpose: what of one channel of x reaches an element of the result ------------------------------------ */

static double transpose_channel(const problem *p, const eb_place *y, int32_t dtype, const void *x, int64_t x_at,
                                const void *weight, int64_t w_at) {
    const eb_window *w = &p->w;
    double sum = 0;
    for (int64_t i = 0; i < w->kernel[0]; i++)
        for (int64_t j = 0; j < w->kernel[1]; j++)
            for (int64_t k = 0; k < w->kernel[2]; k++) {
                int64_t tap[EB_SPATIAL] = {i, j, k}, at = x_at, reaches = 1, tap_at = w_at;
                for (int a = 0; a < EB_SPATIAL; a++) {
                    int64_t from = y->at[a] + w->low[a] - tap[a] * w->dilation[a], place = from / w->stride[a];
                    reaches &= from >= 0 && from % w->stride[a] == 0 && place < w->in[a];
                    if (reaches) at += place * w->x_step[a]; /* else the product may overflow */
                    tap_at += tap[a] * p->tap_step[a];
                }
                if (reaches) sum += eb_load_real(dtype, x, at) * eb_load_real(dtype, weight, tap_at);
            }
    return sum;
}

static eb_status run_conv_transpose(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const images i = images_of(node);
    const eb_tensor *x = &i.x, *weight = eb_input(node, EB_IN_CONVOLUTION_WEIGHT), *y = &i.y;
    problem p = describe(node, x, y);
    int64_t count = eb_size(y), channels = y->shape[1], each_out = weight->shape[1], each_in = x->shape[1] / p.groups;
    for (int64_t flat = eb_piece(count, node->tiles, begin); flat < eb_piece(count, node->tiles, end); flat++) {
        eb_place at = eb_place_of(&p.w, channels, flat);
        double sum = 0;
        for (int64_t c = 0; c < each_in; c++) {
            int64_t channel = at.channel / each_out * each_in + c;
            sum += transpose_channel(&p, &at, x->dtype, eb_data(x, bases), at.n * x->stride[0] + channel * x->stride[1],
                                     eb_data(weight, bases),
                                     channel * weight->stride[0] + at.channel % each_out * weight->stride[1]);
        }
        finish(node, bases, &p, &i, &at, sum);
    }
    return EB_OK;
}
const eb_kernel any_conv_transpose__generic_reference = {plan_tiles, run_conv_transpose};
