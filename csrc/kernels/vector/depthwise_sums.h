/* The sums of a group of places (places.h) where every channel is convolved alone: of depthwise.c and expand_depthwise.c. A
 * row of the kernel lies in registers beside the sums, so each vector of x that is loaded serves every tap of the row that
 * reaches it (3 x 3 / 1: 9 + 3 loads for 21 multiply-adds).
 */
#ifndef EB_DEPTHWISE_SUMS_H
#define EB_DEPTHWISE_SUMS_H

#include "places.h"

/* A vector of x at column `left + q` of a line: zeros outside of `W` columns. `part`: what lies behind the channels may be
 * others', whose sums go nowhere, but not past the end of x. */
EB_INLINE vf load_x(const group *g, const float *line, int64_t q, int64_t W, const int edge, const int part) {
    const float *at = line + q * g->p->C;
    if (edge && (uint64_t)(g->left + q) >= (uint64_t)W) return vf_set(0);
    return part && at + EB_VL > g->x_end ? vf_load_part(at, g->channels) : vf_load(at);
}

/* KW, S: columns and stride of the kernel, 0 where only p knows them (or columns are apart). */
EB_INLINE void sum_group(const group *g, const int KW, const int S, const int edge, const int part) {
    const problem *p = g->p;
    const float *weight = g->weight;
    vf sum[PLACES];
    EB_UNROLL
    for (int n = 0; n < PLACES; n++) sum[n] = bias_of(g, part);
    for (int64_t i = 0; i < rows_of_kernel(p); i++) {
        int64_t W;
        const float *line = line_of(g, i, edge, &W);
        if (KW) {
            vf taps[7];
            EB_UNROLL
            for (int j = 0; j < KW; j++) taps[j] = vf_load(weight + j * EB_VL);
            weight += KW * EB_VL;
            EB_UNROLL
            for (int q = 0; q < (PLACES - 1) * S + KW; q++) {
                vf value = load_x(g, line, q, W, edge, part);
                EB_UNROLL
                for (int j = 0; j < KW; j++)
                    if (q >= j && (q - j) % S == 0 && (q - j) / S < PLACES) sum[(q - j) / S] += value * taps[j];
            }
        } else {
            for (int64_t j = 0; j < p->kernel_w; j++, weight += EB_VL) {
                vf tap = vf_load(weight);
                EB_UNROLL
                for (int n = 0; n < PLACES; n++)
                    sum[n] += load_x(g, line, n * p->stride_w + j * p->dilation_w, W, edge, part) * tap;
            }
        }
    }
    finish_group(g, sum, part);
}

#define DEPTHWISE_FUNCTIONS(name, KW, S)                                        \
    static void name##_inner(const group *g) { sum_group(g, KW, S, 0, 0); }     \
    static void name##_edge(const group *g) { sum_group(g, KW, S, 1, 0); }      \
    static void name##_part(const group *g) { sum_group(g, KW, S, 1, 1); }      \
    static const group_function name[KINDS] = {name##_inner, name##_edge, name##_part};
DEPTHWISE_FUNCTIONS(any_kernel, 0, 0)
DEPTHWISE_FUNCTIONS(three_by_one, 3, 1)
DEPTHWISE_FUNCTIONS(three_by_two, 3, 2)
DEPTHWISE_FUNCTIONS(five_by_one, 5, 1)
DEPTHWISE_FUNCTIONS(five_by_two, 5, 2)
DEPTHWISE_FUNCTIONS(seven_by_one, 7, 1)

static const group_function *functions_of(const problem *p) {
    if (p->dilation_w != 1 || p->stride_w > 2) return any_kernel;
    if (p->kernel_w == 3) return p->stride_w == 1 ? three_by_one : three_by_two;
    if (p->kernel_w == 5) return p->stride_w == 1 ? five_by_one : five_by_two;
    return p->kernel_w == 7 && p->stride_w == 1 ? seven_by_one : any_kernel;
}

#endif
