/* conv of channels-last images, one group, in bfloat16: direct_conv.h. The copy of x holds pairs (bfloat.h), each pixel padded with
 * a zero to whole pairs, so that x is rounded where it is copied. Rows that two tiles read are rounded twice. */
enum { CONV_GROUP = 2 };

#include "../avx512/isa.h"
#define EB_FLOAT_ISA avx512
#include "../vector/direct_conv.h"

#include "../vector/bfloat.h"

/* Columns of windows, from a row of x that is rounded first. */
static void copy_windows(const problem *p, const float *x, eb_bfloat *to, eb_pair *rounded) {
    const int64_t C = p->C, size = p->window * C, reach = (p->window - 1) * p->apart;
    const eb_bfloat *line = (const eb_bfloat *)rounded;
    round_bfloat_rows(x, 0, 1, 1, p->in[COLUMN] * C, rounded);
    for (int64_t c = 0; c < p->columns; c++, to += p->pitch * CONV_GROUP) {
        const int64_t first = c * p->pick[COLUMN] - p->low[COLUMN];
        if (p->apart == 1 && first >= 0 && first + reach < p->in[COLUMN]) {
            memcpy(to, line + first * C, (size_t)size * sizeof *to);
        } else {
            for (int64_t j = 0; j < p->window; j++) {
                const int64_t column = first + j * p->apart;
                if (column >= 0 && column < p->in[COLUMN])
                    memcpy(to + j * C, line + column * C, (size_t)C * sizeof *to);
                else
                    memset(to + j * C, 0, (size_t)C * sizeof *to);
            }
        }
        if (size % CONV_GROUP) to[size] = 0;
    }
}

static void copy_row(const problem *p, const float *x, float *to, void *memory) {
    if (x && p->window > 1) {
        copy_windows(p, x, (eb_bfloat *)to, memory);
        return;
    }
    const int64_t pick = p->pick[COLUMN], C = p->C, pitch = p->pitch;
    int64_t begin = eb_min(eb_ceil_div(p->low[COLUMN], pick), p->columns);
    int64_t end = eb_max(begin, eb_min(eb_ceil_div(p->low[COLUMN] + p->in[COLUMN], pick), p->columns));
    if (!x) begin = end = p->columns;
    memset(to, 0, (size_t)(begin * pitch) * 4);
    memset(to + end * pitch, 0, (size_t)((p->columns - end) * pitch) * 4);
    if (begin == end) return;
    const float *from = x + (begin * pick - p->low[COLUMN]) * C;
    eb_pair *pairs = (eb_pair *)to + begin * pitch;
    if (pick == 1 && pitch * CONV_GROUP == C)
        round_bfloat_rows(from, 0, 1, 1, (end - begin) * C, pairs);
    else if (pitch == p->width)
        round_bfloat_rows(from, pick * C, 1, end - begin, C, pairs);
    else
        for (int64_t c = begin; c < end; c++, from += pick * C, pairs += pitch) round_bfloat_rows(from, 0, 1, 1, C, pairs);
}

static int64_t row_bytes(const problem *p) {
    return p->window > 1 ? count_pairs(p->in[COLUMN] * p->C) * (int64_t)sizeof(eb_pair) : 0;
}

static int fits(const eb_node *node) { return node->ints[EB_INT_CONV_GROUPS] == 1; }

static eb_status plan(eb_node *node) { return fits(node) ? plan_conv(node, row_bytes) : EB_NOT_APPLICABLE; }

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const eb_tensor *w = eb_input(node, input);
    if (!has_direct_weight(node, input) || !fits(node)) return NULL;
    numbers[2] = has_windows(w->shape[1], w->rank > 3 ? w->shape[w->rank - 1] : 1);
    return choose_packing_of(&bfloat_panels_packing, 0, 1, numbers);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    return run_conv(node, bases, begin, end, scratch, copy_row, multiply_bfloat_panel);
}
const eb_kernel EB_PASTE(bd16_bf16w_conv, __, EB_ISA, _, direct, ) = {plan, run, choose_packing};
