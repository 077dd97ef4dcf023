/* conv of channels-last images with a weight of floats: direct_conv.h. */
enum { CONV_GROUP = 1 };

#include "direct_conv.h"

static void copy_row(const problem *p, const float *x, float *to, void *memory) {
    (void)memory;
    const int64_t pick = p->pick[COLUMN], pixel = p->C * p->groups, bytes = p->C * 4, whole = pick == 1 && p->pitch == pixel;
    int64_t begin = eb_min(eb_ceil_div(p->low[COLUMN], pick), p->columns);
    int64_t end = eb_max(begin, eb_min(eb_ceil_div(p->low[COLUMN] + p->in[COLUMN], pick), p->columns));
    if (!x) begin = end = p->columns;
    memset(to, 0, (size_t)(begin * p->pitch) * 4);
    if (whole && end > begin) memcpy(to + begin * p->C, x + (begin - p->low[COLUMN]) * p->C, (size_t)((end - begin) * bytes));
    for (int64_t c = begin; c < end && !whole; c++)
        memcpy(to + c * p->pitch, x + (c * pick - p->low[COLUMN]) * pixel, (size_t)bytes);
    memset(to + end * p->pitch, 0, (size_t)((p->columns - end) * p->pitch) * 4);
}

static eb_status plan(eb_node *node) { return plan_conv(node, NULL); }

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    if (!has_direct_weight(node, input)) return NULL;
    if (node->ints[EB_INT_CONV_GROUPS] > 1) numbers[2] = node->ints[EB_INT_CONV_GROUPS];
    return choose_packing_of(&panels_packing, 0, 1, numbers);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    return run_conv(node, bases, begin, end, scratch, copy_row, multiply_panel);
}
const eb_kernel EB_SYMBOL(conv, direct) = {plan, run, choose_packing};
