/* group_norm of float32 and float64: mean and variance over the channels of a group and all places of an image.
 *
 * Channels first, a group is one run of memory. Channels last, a tile is some groups whose channels stand side by side, SIDE
 * channels at least where there are as many, so that whole lines of the cache are read; vectors along the channels go down
 * the places, and the statistics of a group's channels are joined at the end. Images of one place count as channels last.
 *
 * x is read twice: a block is summed and then, out of the first-level cache, the squares of the distances from the block's
 * mean are. Blocks are joined in double (Chan, Golub and LeVeque 1979), so that neither large images nor a large mean cost
 * digits. */
#include "../../ops.h"
#include "math.h"

enum {
    BLOCK_ELEMENTS = 4096, /* whose statistics are made at a time */
    TILE_ELEMENTS = 16384,
    SIDE = 64,
    FEWEST_PLACES = 16, /* of a block, channels last; and the most of them, that one float sum takes */
    MOST_PLACES = 128,
    SUMS = 8 /* independent vectors, so that additions do not wait for each other */
};

typedef struct {
    int64_t places, channels, width; /* width: channels of a group */
    int64_t tile, tiles;             /* of an image, channels last: channels a tile, and tiles; else groups a tile in all */
    int64_t groups;                  /* of all images */
    int32_t is_last;
} tiling;
EB_NODE_PLAN(tiling)

/* Elements seen: how many, their mean, and the sum of squared distances from it. */
typedef struct {
    double count, mean, squares;
} statistics;

EB_INLINE void join(statistics *s, double count, double mean, double squares) {
    const double apart = mean - s->mean, share = count / (s->count + count);
    s->squares += squares + apart * apart * s->count * share;
    s->mean += apart * share;
    s->count += count;
}

static eb_status plan(eb_node *node, int32_t dtype) {
    const eb_tensor *x = eb_input(node, EB_IN_GROUP_NORM_X), *y = eb_output(node);
    if (x->dtype != dtype || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    for (int i = 0; i < node->n_inputs; i++)
        if (eb_is_present(node, i) && !eb_is_dense(eb_input(node, i))) return EB_NEEDS_DENSE;
    tiling *t = edit_tiling(node);
    const int64_t size = eb_size(x), groups = node->ints[EB_INT_GROUP_NORM_GROUPS];
    node->tiles = 0;
    if (size == 0) return EB_OK;
    t->channels = x->shape[node->ints[EB_INT_GROUP_NORM_CHANNELS_LAST] ? x->rank - 1 : 1];
    t->places = size / x->shape[0] / t->channels;
    t->width = t->channels / groups;
    t->groups = x->shape[0] * groups;
    t->is_last = node->ints[EB_INT_GROUP_NORM_CHANNELS_LAST] || t->places == 1;
    if (t->is_last) {
        t->tile = eb_min(eb_ceil_div(SIDE, t->width), groups) * t->width;
        t->tiles = eb_ceil_div(t->channels, t->tile);
        node->tiles = x->shape[0] * t->tiles;
        node->scratch_bytes = t->tile * 6 * (int64_t)sizeof(double);
    } else {
        t->tile = eb_max(1, TILE_ELEMENTS / (t->width * t->places));
        node->tiles = eb_ceil_div(t->groups, t->tile);
    }
    return EB_OK;
}

#define NAMED(name) name##_of_floats
#define SCALAR float
#include "group_norm.h"
#undef NAMED
#undef SCALAR
#define NAMED(name) name##_of_doubles
#define SCALAR double
#include "group_norm.h"

static eb_status plan_vector(eb_node *node) { return plan(node, EB_F32); }
static eb_status plan_doubles(eb_node *node) { return plan(node, EB_F64); }
const eb_kernel EB_SYMBOL(group_norm, vector) = {plan_vector, run_of_floats};
const eb_kernel EB_PASTE(any_group_norm, __, EB_ISA, _, doubles, ) = {plan_doubles, run_of_doubles};
