/* Reference of max_pool and avg_pool: every window alone, in double. */
#include "../ops.h"
#include "window.h"

/* x and y with their channels on axis 1. */
typedef struct {
    eb_tensor x, y;
} operands;

static operands operands_of(const eb_node *node) {
    const int last = node->ints[EB_INT_POOL_CHANNELS_LAST] != 0;
    return (operands){eb_channels_first(eb_input(node, EB_IN_POOL_X), last), eb_channels_first(eb_output(node), last)};
}

static eb_window describe(const eb_node *node) {
    const operands o = operands_of(node);
    const eb_tensor *x = &o.x;
    eb_window w = eb_window_new(x, &o.y);
    eb_window_set(w.kernel, &node->ints[EB_INT_POOL_KERNEL], x->rank);
    eb_window_set(w.stride, &node->ints[EB_INT_POOL_STRIDE], x->rank);
    eb_window_set(w.low, &node->ints[EB_INT_POOL_LOW], x->rank);
    eb_window_set(w.high, &node->ints[EB_INT_POOL_HIGH], x->rank);
    return w;
}

static eb_status plan_pool(eb_node *node) {
    if (!eb_is_real(eb_input(node, EB_IN_POOL_X)->dtype)) return EB_NOT_APPLICABLE;
    eb_window w = describe(node);
    node->tiles = eb_tile_count(eb_size(eb_output(node)), EB_MULTIPLY(w.kernel[0], w.kernel[1], w.kernel[2]));
    return EB_OK;
}

typedef struct {
    double largest, sum;
} seen;

/* All elements of x under the window at `place`. */
static seen look(const eb_window *w, const eb_place *place, int32_t dtype, const void *x, int64_t x_at) {
    seen s = {.largest = -INFINITY};
    int64_t first[EB_SPATIAL], begin[EB_SPATIAL], end[EB_SPATIAL]; /* taps [begin, end) lie within x */
    for (int a = 0; a < EB_SPATIAL; a++) {
        first[a] = place->at[a] * w->stride[a] - w->low[a];
        eb_clip(first[a], w->dilation[a], w->in[a], w->kernel[a], &begin[a], &end[a]);
    }
    for (int64_t i = begin[0]; i < end[0]; i++)
        for (int64_t j = begin[1]; j < end[1]; j++)
            for (int64_t k = begin[2]; k < end[2]; k++) {
                int64_t tap[EB_SPATIAL] = {i, j, k}, at = x_at;
                for (int a = 0; a < EB_SPATIAL; a++) at += (first[a] + tap[a] * w->dilation[a]) * w->x_step[a];
                double value = eb_load_real(dtype, x, at);
                if (value > s.largest || isnan(value)) s.largest = value; /* nothing is larger than NaN */
                s.sum += value;
            }
    return s;
}

/* Elements of the window, with or without those of the padding; what lies past the padding never counts. */
static int64_t count_of(const eb_window *w, const eb_place *place, int padding) {
    int64_t count = 1;
    for (int a = 0; a < EB_SPATIAL; a++) {
        int64_t first = place->at[a] * w->stride[a] - w->low[a];
        int64_t last = eb_min(first + w->kernel[a], w->in[a] + w->high[a]);
        count *= padding ? last - first : eb_min(last, w->in[a]) - eb_max(first, 0);
    }
    return count;
}

static eb_status run_pool(const eb_node *node, void *const *bases, int64_t begin, int64_t end, eb_window w, int mean) {
    const operands o = operands_of(node);
    const eb_tensor *x = &o.x, *y = &o.y;
    int64_t count = eb_size(y), divisor = mean ? node->ints[EB_INT_AVG_POOL_DIVISOR] : 0;
    int padding = mean && node->ints[EB_INT_AVG_POOL_COUNT_PADDING] != 0;
    for (int64_t flat = eb_piece(count, node->tiles, begin); flat < eb_piece(count, node->tiles, end); flat++) {
        eb_place at = eb_place_of(&w, y->shape[1], flat);
        seen s = look(&w, &at, x->dtype, eb_data(x, bases), at.n * x->stride[0] + at.channel * x->stride[1]);
        double value = s.largest;
        if (mean) value = s.sum / (double)(divisor ? divisor : count_of(&w, &at, padding));
        eb_store_real(y->dtype, eb_data(y, bases), eb_place_offset(y, w.y_step, &at), value);
    }
    return EB_OK;
}

static eb_status run_max_pool(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    eb_window w = describe(node);
    eb_window_set(w.dilation, &node->ints[EB_INT_MAX_POOL_DILATION], eb_input(node, EB_IN_POOL_X)->rank);
    return run_pool(node, bases, begin, end, w, 0);
}
const eb_kernel any_max_pool__generic_reference = {plan_pool, run_max_pool};

static eb_status run_avg_pool(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_pool(node, bases, begin, end, describe(node), 1);
}
const eb_kernel any_avg_pool__generic_reference = {plan_pool, run_avg_pool};
