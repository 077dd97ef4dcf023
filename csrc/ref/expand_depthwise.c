/* Reference of expand_depthwise: every element of the result alone. What lies between is made anew for each tap, in double,
 * and rounded to float as a linear of its own would round it. */
#include "activate.h"
#include "weight.h"

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_EXPAND_DEPTHWISE_X);
    const eb_tensor *expand = eb_input(node, EB_IN_EXPAND_DEPTHWISE_EXPAND);
    const eb_tensor *weight = eb_input(node, EB_IN_EXPAND_DEPTHWISE_WEIGHT);
    if (x->dtype != EB_F32 || expand->is_packed || weight->is_packed) return EB_NOT_APPLICABLE;
    const int64_t height = eb_decoded_size(weight, 2), width = eb_decoded_size(weight, 3);
    node->tiles = eb_tile_count(eb_size(eb_output(node)), EB_MULTIPLY(height, width, x->shape[3]));
    return EB_OK;
}

static double bias_of(const eb_node *node, void *const *bases, int input, int64_t channel) {
    if (!eb_is_present(node, input)) return 0;
    const eb_tensor *bias = eb_input(node, input);
    return ((const float *)eb_data(bias, bases))[channel * bias->stride[0]];
}

/* Channel e of linear(x) at a place of x. */
static double expanded(const eb_node *node, void *const *bases, const eb_weight *expand, int64_t n, int64_t row,
                       int64_t column, int64_t e) {
    const eb_tensor *x = eb_input(node, EB_IN_EXPAND_DEPTHWISE_X);
    const float *at = (const float *)eb_data(x, bases) + n * x->stride[0] + row * x->stride[1] + column * x->stride[2];
    double sum = 0;
    for (int64_t c = 0; c < x->shape[3]; c++) sum += (double)at[c * x->stride[3]] * eb_element_at(expand, (int64_t[]){e, c});
    sum += bias_of(node, bases, EB_IN_EXPAND_DEPTHWISE_EXPAND_BIAS, e);
    return (float)eb_activate(node->ints[EB_INT_EXPAND_DEPTHWISE_EXPAND_ACTIVATION], sum);
}

static double convolved(const eb_node *node, void *const *bases, const int64_t *at) {
    const eb_tensor *x = eb_input(node, EB_IN_EXPAND_DEPTHWISE_X);
    const eb_weight expand = eb_weight_of(node, bases, EB_IN_EXPAND_DEPTHWISE_EXPAND, EB_F32);
    const eb_weight taps = eb_weight_of(node, bases, EB_IN_EXPAND_DEPTHWISE_WEIGHT, EB_F32);
    const int64_t *ints = node->ints, *stride = ints + EB_INT_EXPAND_DEPTHWISE_STRIDE;
    const int64_t *low = ints + EB_INT_EXPAND_DEPTHWISE_LOW, *dilation = ints + EB_INT_EXPAND_DEPTHWISE_DILATION;
    double sum = 0;
    for (int64_t i = 0; i < eb_decoded_size(taps.t, 2); i++)
        for (int64_t j = 0; j < eb_decoded_size(taps.t, 3); j++) {
            int64_t row = at[1] * stride[0] - low[0] + i * dilation[0], column = at[2] * stride[1] - low[1] + j * dilation[1];
            int inside = row >= 0 && row < x->shape[1] && column >= 0 && column < x->shape[2];
            sum += (inside ? expanded(node, bases, &expand, at[0], row, column, at[3]) : 0) *
                   eb_element_at(&taps, (int64_t[]){at[3], 0, i, j});
        }
    return sum + bias_of(node, bases, EB_IN_EXPAND_DEPTHWISE_BIAS, at[3]);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *y = eb_output(node);
    const int64_t count = eb_size(y);
    for (int64_t flat = eb_piece(count, node->tiles, begin); flat < eb_piece(count, node->tiles, end); flat++) {
        int64_t at[EB_MAX_RANK], offset = 0;
        eb_coordinates(y, flat, at);
        for (int axis = 0; axis < y->rank; axis++) offset += at[axis] * y->stride[axis];
        ((float *)eb_data(y, bases))[offset] =
            (float)eb_activate(node->ints[EB_INT_EXPAND_DEPTHWISE_ACTIVATION], convolved(node, bases, at));
    }
    return EB_OK;
}
const eb_kernel any_anyw_expand_depthwise__generic_reference = {plan, run};
