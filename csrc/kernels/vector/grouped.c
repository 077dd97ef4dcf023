/* conv of several groups of channels, of which a vector holds several or is one; panels are better for wider ones
 * (direct_conv.h). A tap has a vector of the weight for each channel of x in a group; what it is multiplied by has in each lane
 * that channel of the lane's own group:
 *
 *   shared      the vector lies within one group: one element of x in all lanes
 *   permuted    several whole groups: a vector of x, its lanes permuted
 *
 *   groups of 4, vector of 8    x  a0 a1 a2 a3 b0 b1 b2 b3    channel 2:  a2 a2 a2 a2 b2 b2 b2 b2
 */
#include "group_conv.h"

/* Less what depthwise.c takes. A node may want this kernel for wider groups. */
static int fits(const eb_node *node) {
    const int64_t groups = node->ints[EB_INT_CONV_GROUPS], *w = eb_input(node, EB_IN_CONV_WEIGHT)->shape;
    if (!is_image_conv(node) || groups <= 1 || (w[1] == 1 && w[0] == groups) || w[0] < groups) return 0;
    const int64_t each_out = w[0] / groups;
    if (each_out % EB_VL == 0) return node->wanted || each_out == EB_VL;
    return each_out < EB_VL && EB_VL / each_out * w[1] <= EB_VL && (node->wanted || 2 * each_out <= EB_VL);
}

enum { SHARED, PERMUTED };

/* Channel c of each lane's group. at: the first group's channels at some place. */
EB_INLINE vf channel_of(const group *g, const float *at, int64_t c, vi lanes, const int how, const int part) {
    if (how == SHARED) return vf_set(at[c]);
    const vf whole = part && at + EB_VL > g->x_end ? vf_load_part(at, g->x_end - at) : vf_load(at);
    return vf_permute(whole, lanes + (int32_t)c);
}

/* The same at column `left + q` of a line, zeros outside of `W` columns. */
EB_INLINE vf channel_at(const group *g, const float *line, int64_t q, int64_t W, int64_t c, vi lanes, const int how,
                        const int edge, const int part) {
    if (edge && (uint64_t)(g->left + q) >= (uint64_t)W) return vf_set(0);
    return channel_of(g, line + q * g->p->C, c, lanes, how, part);
}

/* KW, S: columns and stride of the kernel, 0 where only p knows them (or columns are apart). Known, what a lane is
 * multiplied by is made once for all taps of a row that reach it. */
EB_INLINE void sum_group(const group *g, const int how, const int KW, const int S, const int edge, const int part) {
    const problem *p = g->p;
    const float *weight = g->weight;
    const int64_t each_in = p->each_in, each_out = p->each_out, step = each_in * EB_VL;
    vi lanes = {0}; /* of each: its group's first channel, counted from g->x */
    for (int lane = 0; lane < lanes_of(each_out) && how != SHARED; lane++) lanes[lane] = (int32_t)(lane / each_out * each_in);
    vf sum[PLACES];
    EB_UNROLL
    for (int n = 0; n < PLACES; n++) sum[n] = bias_of(g, part);
    for (int64_t i = 0; i < rows_of_kernel(p); i++, weight += p->kernel_w * step) {
        int64_t W;
        const float *line = line_of(g, i, edge, &W);
        for (int64_t c = 0; c < each_in; c++) {
            if (KW) {
                vf taps[3];
                EB_UNROLL
                for (int j = 0; j < KW; j++) taps[j] = vf_load(weight + j * step + c * EB_VL);
                EB_UNROLL
                for (int q = 0; q < (PLACES - 1) * S + KW; q++) {
                    vf value = channel_at(g, line, q, W, c, lanes, how, edge, part);
                    EB_UNROLL
                    for (int j = 0; j < KW; j++)
                        if (q >= j && (q - j) % S == 0 && (q - j) / S < PLACES) sum[(q - j) / S] += value * taps[j];
                }
            } else {
                for (int64_t j = 0; j < p->kernel_w; j++) {
                    vf tap = vf_load(weight + j * step + c * EB_VL);
                    EB_UNROLL
                    for (int n = 0; n < PLACES; n++) {
                        const int64_t q = n * p->stride_w + j * p->dilation_w;
                        sum[n] += channel_at(g, line, q, W, c, lanes, how, edge, part) * tap;
                    }
                }
            }
        }
    }
    finish_group(g, sum, part);
}

#define GROUPED_FUNCTIONS(name, how, KW, S)                                         \
    static void name##_inner(const group *g) { sum_group(g, how, KW, S, 0, 0); }    \
    static void name##_edge(const group *g) { sum_group(g, how, KW, S, 1, 0); }     \
    static void name##_part(const group *g) { sum_group(g, how, KW, S, 1, 1); }     \
    static const group_function name[KINDS] = {name##_inner, name##_edge, name##_part};
GROUPED_FUNCTIONS(shared, SHARED, 0, 0)
GROUPED_FUNCTIONS(shared_three_by_one, SHARED, 3, 1)
GROUPED_FUNCTIONS(shared_three_by_two, SHARED, 3, 2)
GROUPED_FUNCTIONS(permuted, PERMUTED, 0, 0)
GROUPED_FUNCTIONS(permuted_three_by_one, PERMUTED, 3, 1)
GROUPED_FUNCTIONS(permuted_three_by_two, PERMUTED, 3, 2)

static const group_function *functions_of(const problem *p) {
    const int known = p->dilation_w == 1 && p->kernel_w == 3 && p->stride_w <= 2;
    const int64_t form = known ? p->stride_w : 0;
    static const group_function *const shares[] = {shared, shared_three_by_one, shared_three_by_two};
    static const group_function *const permutes[] = {permuted, permuted_three_by_one, permuted_three_by_two};
    return p->each_out % EB_VL == 0 ? shares[form] : permutes[form];
}

EB_PLACES_KERNEL(grouped)
