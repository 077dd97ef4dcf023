/* The windows of max_pool and avg_pool over one to three spatial axes, wherever the channels lie. */
#ifndef EB_POOL_WINDOW_H
#define EB_POOL_WINDOW_H

#include "convolution.h"
#include "vec.h"

typedef struct {
    int64_t in[AXES], out[AXES], kernel[AXES], stride[AXES], low[AXES], high[AXES], dilation[AXES];
} window;

/* The spatial axis of `rank - 2` that is read as `axis` of three, or -1: one axis is columns where neighbours in memory are
 * neighbours along it, and rows where they are channels. */
static inline int pool_axis(int rank, int axis, int channels_last) { return channels_last ? axis_of(rank, axis) : axis + rank - 5; }

static inline window describe(const eb_node *node, int dilates, int channels_last) {
    const eb_tensor *x = eb_input(node, EB_IN_POOL_X), *y = eb_output(node);
    window w;
    for (int a = 0; a < AXES; a++) {
        const int own = pool_axis(x->rank, a, channels_last), present = own >= 0, at = own + 2 - channels_last;
        w.in[a] = present ? x->shape[at] : 1;
        w.out[a] = present ? y->shape[at] : 1;
        w.kernel[a] = present ? node->ints[EB_INT_POOL_KERNEL + own] : 1;
        w.stride[a] = present ? node->ints[EB_INT_POOL_STRIDE + own] : 1;
        w.low[a] = present ? node->ints[EB_INT_POOL_LOW + own] : 0;
        w.high[a] = present ? node->ints[EB_INT_POOL_HIGH + own] : 0;
        w.dilation[a] = present && dilates ? node->ints[EB_INT_MAX_POOL_DILATION + own] : 1;
    }
    return w;
}

/* Elements along an axis that a mean divides by: those within x and, if they count, those of the padding. */
static inline int64_t count_elements(const window *w, int axis, int64_t first, int padding) {
    int64_t size = w->in[axis], last = eb_min(first + w->kernel[axis], size + w->high[axis]);
    return padding ? last - first : eb_min(last, size) - eb_max(first, 0);
}

#endif
