/* Reference of layer_norm, rms_norm, group_norm, softmax and log_softmax, in double. */
#include "../ops.h"
#include "element.h"
#include "window.h"

/* --- over the trailing axes ------------------------------------------------------------------------------------- */

typedef struct {
    int32_t dtype;
    const void *x, *weight, *bias, *addend;
    void *y;
    eb_loop rows, row;               /* operands: x, y, addend */
    eb_loop weight_row, bias_row;
} norm;

/* Axes [first, last) of x, y and what is added to x: as if that were x itself where there is none. */
static eb_loop norm_loop(const eb_tensor *x, const eb_tensor *y, const eb_tensor *addend, int first, int last) {
    eb_loop loop = eb_loop_new(3);
    for (int axis = first; axis < last; axis++) {
        int64_t strides[3] = {x->stride[axis], y->stride[axis], (addend ? addend : x)->stride[axis]};
        eb_loop_axis(&loop, x->shape[axis], strides);
    }
    return loop;
}

/* Of layer_norm and rms_norm. */
static eb_status plan_norm(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_NORM_X);
    if (!eb_is_real(x->dtype)) return EB_NOT_APPLICABLE;
    int axes = (int)node->ints[EB_INT_NORM_AXES];
    eb_loop rows = eb_loop_axes(x, 0, x->rank - axes), row = eb_loop_axes(x, x->rank - axes, x->rank);
    node->tiles = eb_tile_count(row.count ? rows.count : 0, row.count);
    return EB_OK;
}

static norm describe_norm(const eb_node *node, void *const *bases, int addend_at) {
    const eb_tensor *x = eb_input(node, EB_IN_NORM_X), *y = eb_output(node);
    int split = x->rank - (int)node->ints[EB_INT_NORM_AXES];
    norm n = {.dtype = x->dtype, .x = eb_data(x, bases), .y = eb_data(y, bases)};
    const eb_tensor *addend = eb_optional_input(node, addend_at);
    if (addend) n.addend = eb_data(addend, bases);
    n.rows = norm_loop(x, y, addend, 0, split);
    n.row = norm_loop(x, y, addend, split, x->rank);
    const eb_tensor *weight = eb_optional_input(node, EB_IN_NORM_WEIGHT);
    if (weight) {
        n.weight = eb_data(weight, bases);
        n.weight_row = eb_loop_axes(weight, 0, weight->rank);
    }
    const int is_layer_norm = addend_at == EB_IN_LAYER_NORM_ADDEND;
    const eb_tensor *bias = is_layer_norm ? eb_optional_input(node, EB_IN_LAYER_NORM_BIAS) : NULL;
    if (bias) {
        n.bias = eb_data(bias, bases);
        n.bias_row = eb_loop_axes(bias, 0, bias->rank);
    }
    return n;
}

/* Element i of a row: x, or x + addend rounded to their type, as an add of its own would. */
static double x_value(const norm *n, const eb_cursor *row, int64_t i, int64_t *y_at) {
    eb_cursor c;
    eb_cursor_seek(&n->row, &c, i);
    *y_at = row->offset[1] + c.offset[1];
    double x = eb_load_real(n->dtype, n->x, row->offset[0] + c.offset[0]);
    if (!n->addend) return x;
    uint64_t sum;
    eb_store_real(n->dtype, &sum, 0, x + eb_load_real(n->dtype, n->addend, row->offset[2] + c.offset[2]));
    return eb_load_real(n->dtype, &sum, 0);
}

static eb_status run_norm(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int centred) {
    norm n = describe_norm(node, bases, centred ? EB_IN_LAYER_NORM_ADDEND : EB_IN_RMS_NORM_ADDEND);
    int64_t count = n.row.count, y_at;
    for (int64_t r = eb_piece(n.rows.count, node->tiles, begin); r < eb_piece(n.rows.count, node->tiles, end); r++) {
        eb_cursor row;
        eb_cursor_seek(&n.rows, &row, r);
        double mean = 0, square = 0;
        for (int64_t i = 0; i < count && centred; i++) mean += x_value(&n, &row, i, &y_at);
        mean /= (double)count;
        for (int64_t i = 0; i < count; i++) {
            double v = x_value(&n, &row, i, &y_at) - mean;
            square += v * v;
        }
        double scale = 1 / sqrt(square / (double)count + node->reals[EB_REAL_NORM_EPSILON]);
        for (int64_t i = 0; i < count; i++) {
            double v = (x_value(&n, &row, i, &y_at) - mean) * scale; /* y may lie on x: read, then write */
            if (n.weight) v *= eb_load_real(n.dtype, n.weight, eb_loop_offset(&n.weight_row, i));
            if (n.bias) v += eb_load_real(n.dtype, n.bias, eb_loop_offset(&n.bias_row, i));
            eb_store_real(n.dtype, n.y, y_at, v);
        }
    }
    return EB_OK;
}

static eb_status run_layer_norm(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_norm(node, bases, begin, end, 1);
}
static eb_status run_rms_norm(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_norm(node, bases, begin, end, 0);
}
const eb_kernel any_layer_norm__generic_reference = {plan_norm, run_layer_norm};
const eb_kernel any_rms_norm__generic_reference = {plan_norm, run_rms_norm};

/* --- over groups of channels ---------------------------------------------------------------------------------------- */

static eb_status plan_group_norm(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_GROUP_NORM_X);
    if (!eb_is_real(x->dtype)) return EB_NOT_APPLICABLE;
    const int64_t groups = x->shape[0] * node->ints[EB_INT_GROUP_NORM_GROUPS], size = eb_size(x);
    node->tiles = size ? eb_tile_count(groups, size / groups) : 0;
    return EB_OK;
}

static eb_status run_group_norm(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const int is_last = (int)node->ints[EB_INT_GROUP_NORM_CHANNELS_LAST];
    const eb_tensor x = eb_channels_first(eb_input(node, EB_IN_GROUP_NORM_X), is_last);
    const eb_tensor y = eb_channels_first(eb_output(node), is_last);
    const eb_tensor *weight = eb_optional_input(node, EB_IN_GROUP_NORM_WEIGHT);
    const eb_tensor *bias = eb_optional_input(node, EB_IN_GROUP_NORM_BIAS);
    const void *x_data = eb_data(&x, bases);
    const int64_t groups = node->ints[EB_INT_GROUP_NORM_GROUPS], width = x.shape[1] / groups, all = x.shape[0] * groups;
    eb_loop group = eb_loop_new(2); /* its channels and all places */
    for (int axis = 1; axis < x.rank; axis++)
        eb_loop_axis(&group, axis == 1 ? width : x.shape[axis], (const int64_t[]){x.stride[axis], y.stride[axis]});
    for (int64_t g = eb_piece(all, node->tiles, begin); g < eb_piece(all, node->tiles, end); g++) {
        const int64_t image = g / groups, first = g % groups * width;
        const int64_t x_at = image * x.stride[0] + first * x.stride[1], y_at = image * y.stride[0] + first * y.stride[1];
        double mean = 0, square = 0;
        eb_cursor c;
        eb_cursor_seek(&group, &c, 0);
        for (int64_t i = 0; i < group.count; i++, eb_cursor_advance(&group, &c, 1))
            mean += eb_load_real(x.dtype, x_data, x_at + c.offset[0]);
        mean /= (double)group.count;
        eb_cursor_seek(&group, &c, 0);
        for (int64_t i = 0; i < group.count; i++, eb_cursor_advance(&group, &c, 1)) {
            const double v = eb_load_real(x.dtype, x_data, x_at + c.offset[0]) - mean;
            square += v * v;
        }
        const double scale = 1 / sqrt(square / (double)group.count + node->reals[EB_REAL_GROUP_NORM_EPSILON]);
        eb_cursor_seek(&group, &c, 0);
        for (int64_t i = 0; i < group.count; i++, eb_cursor_advance(&group, &c, 1)) {
            const int64_t channel = first + i / (group.count / width);
            double v = (eb_load_real(x.dtype, x_data, x_at + c.offset[0]) - mean) * scale;
            if (weight) v *= eb_load_real(x.dtype, eb_data(weight, bases), channel * weight->stride[0]);
            if (bias) v += eb_load_real(x.dtype, eb_data(bias, bases), channel * bias->stride[0]);
            eb_store_real(x.dtype, eb_data(eb_output(node), bases), y_at + c.offset[1], v);
        }
    }
    return EB_OK;
}
const eb_kernel any_group_norm__generic_reference = {plan_group_norm, run_group_norm};

/* --- along one axis --------------------------------------------------------------------------------------------- */

/* The lines along `axis`: a loop over all other axes. */
static eb_loop lines_of(const eb_tensor *x, const eb_tensor *y, int axis) {
    eb_loop loop = eb_loop_new(2);
    for (int i = 0; i < x->rank; i++) {
        int64_t strides[2] = {x->stride[i], y->stride[i]};
        if (i != axis) eb_loop_axis(&loop, x->shape[i], strides);
    }
    return loop;
}

static eb_status plan_softmax(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_SOFTMAXES_X);
    if (!eb_is_real(x->dtype)) return EB_NOT_APPLICABLE;
    int64_t size = x->rank ? x->shape[node->ints[EB_INT_SOFTMAXES_AXIS]] : 1;
    node->tiles = eb_tile_count(size ? eb_size(x) / size : 0, size);
    return EB_OK;
}

static eb_status run_any_softmax(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int is_log) {
    const eb_tensor *x = eb_input(node, EB_IN_SOFTMAXES_X), *y = eb_output(node);
    int axis = (int)node->ints[EB_INT_SOFTMAXES_AXIS];
    int64_t size = x->rank ? x->shape[axis] : 1, x_step = x->rank ? x->stride[axis] : 0, y_step = x->rank ? y->stride[axis] : 0;
    const void *x_data = eb_data(x, bases);
    eb_loop lines = lines_of(x, y, axis);
    for (int64_t line = eb_piece(lines.count, node->tiles, begin); line < eb_piece(lines.count, node->tiles, end); line++) {
        eb_cursor c;
        eb_cursor_seek(&lines, &c, line);
        double largest = -INFINITY, sum = 0;
        for (int64_t i = 0; i < size; i++) {
            double v = eb_load_real(x->dtype, x_data, c.offset[0] + i * x_step);
            if (v > largest || isnan(v)) largest = v;
        }
        for (int64_t i = 0; i < size; i++)
            sum += exp(eb_load_real(x->dtype, x_data, c.offset[0] + i * x_step) - largest);
        for (int64_t i = 0; i < size; i++) {
            double v = eb_load_real(x->dtype, x_data, c.offset[0] + i * x_step) - largest;
            eb_store_real(y->dtype, eb_data(y, bases), c.offset[1] + i * y_step, is_log ? v - log(sum) : exp(v) / sum);
        }
    }
    return EB_OK;
}

static eb_status run_softmax(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_any_softmax(node, bases, begin, end, 0);
}
static eb_status run_log_softmax(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_any_softmax(node, bases, begin, end, 1);
}
const eb_kernel any_softmax__generic_reference = {plan_softmax, run_softmax};
const eb_kernel any_log_softmax__generic_reference = {plan_softmax, run_log_softmax};
