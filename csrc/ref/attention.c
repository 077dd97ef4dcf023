/* Reference of attention: per query row all scores, a softmax in double, a weighted sum of the values. */
#include "../ops.h"
#include "element.h"

/* Axes counted from the end: leading..., heads, rows, depth. */
static int64_t offset_of(const eb_tensor *t, const int64_t *leading, int leading_rank) {
    int64_t offset = 0;
    for (int axis = 0; axis < leading_rank; axis++) {
        int own = axis - (leading_rank - (t->rank - 2));
        if (own >= 0 && t->shape[own] != 1) offset += leading[axis] * t->stride[own];
    }
    return offset;
}

static int64_t keys(const eb_node *node) {
    const eb_tensor *k = eb_input(node, EB_IN_ATTENTION_KEY);
    return k->shape[k->rank - 2];
}

static eb_status plan_attention(eb_node *node) {
    const eb_tensor *q = eb_input(node, EB_IN_ATTENTION_QUERY), *v = eb_input(node, EB_IN_ATTENTION_VALUE);
    if (!eb_is_real(q->dtype)) return EB_NOT_APPLICABLE;
    int64_t depth = q->shape[q->rank - 1], E = v->shape[v->rank - 1];
    node->tiles = eb_tile_count(E ? eb_size(eb_output(node)) / E : 0, keys(node) * (depth + E));
    node->scratch_bytes = keys(node) * (int64_t)sizeof(double);
    return EB_OK;
}

typedef struct {
    const eb_tensor *q, *k, *v, *mask, *y;
    int64_t T, D, E, row;    /* row: the query's position in its sequence */
    int64_t q_at, k_at, v_at, mask_at, y_at; /* where the row's, the head's data start */
} query;

static query locate(const eb_node *node, int64_t flat) {
    query p = {.q = eb_input(node, EB_IN_ATTENTION_QUERY),
               .k = eb_input(node, EB_IN_ATTENTION_KEY),
               .v = eb_input(node, EB_IN_ATTENTION_VALUE),
               .mask = eb_optional_input(node, EB_IN_ATTENTION_MASK),
               .y = eb_output(node)};
    int rank = p.q->rank, leading = rank - 2, swapped = node->ints[EB_INT_ATTENTION_TRANSPOSE_OUTPUT] != 0;
    int64_t index[EB_MAX_RANK], head_index[EB_MAX_RANK], S = p.q->shape[rank - 2];
    int64_t H = rank > 2 ? p.q->shape[rank - 3] : 1, G = rank > 2 ? p.k->shape[rank - 3] : 1;
    p.T = keys(node), p.D = p.q->shape[rank - 1], p.E = p.v->shape[rank - 1];
    p.row = flat % S;
    flat /= S;
    for (int axis = leading - 1; axis >= 0; axis--) {
        head_index[axis] = index[axis] = flat % p.q->shape[axis];
        flat /= p.q->shape[axis];
    }
    if (leading) head_index[leading - 1] /= H / G;
    p.q_at = offset_of(p.q, index, leading) + p.row * p.q->stride[rank - 2];
    p.k_at = offset_of(p.k, head_index, leading);
    p.v_at = offset_of(p.v, head_index, leading);
    if (p.mask) {
        p.mask_at = offset_of(p.mask, index, leading);
        if (p.mask->rank > 1) p.mask_at += p.row * eb_broadcast_stride(p.mask, rank, rank - 2);
    }
    int head_axis = swapped ? rank - 2 : rank - 3, row_axis = swapped ? rank - 3 : rank - 2;
    p.y_at = p.row * p.y->stride[row_axis];
    for (int axis = 0; axis < leading - 1; axis++) p.y_at += index[axis] * p.y->stride[axis];
    if (leading) p.y_at += index[leading - 1] * p.y->stride[head_axis];
    return p;
}

/* Scores of one row into `scores`; a key that takes no part is -inf. Answers the largest. */
static double score(const eb_node *node, void *const *bases, const query *p, double *scores) {
    int rank = p->q->rank, causal = node->ints[EB_INT_ATTENTION_CAUSAL] != 0;
    int64_t mask_stride = p->mask ? eb_broadcast_stride(p->mask, rank, rank - 1) : 0;
    double largest = -INFINITY;
    for (int64_t t = 0; t < p->T; t++) {
        double sum = 0;
        for (int64_t d = 0; d < p->D; d++)
            sum += eb_load_real(p->q->dtype, eb_data(p->q, bases), p->q_at + d * p->q->stride[rank - 1]) *
                   eb_load_real(p->k->dtype, eb_data(p->k, bases),
                                p->k_at + t * p->k->stride[rank - 2] + d * p->k->stride[rank - 1]);
        sum *= node->reals[EB_REAL_ATTENTION_SCALE];
        if (p->mask) {
            int64_t at = p->mask_at + t * mask_stride;
            if (p->mask->dtype != EB_BOOL)
                sum += eb_load_real(p->mask->dtype, eb_data(p->mask, bases), at);
            else if (!((const uint8_t *)eb_data(p->mask, bases))[at])
                sum = -INFINITY;
        }
        if (causal && t > p->row) sum = -INFINITY;
        scores[t] = sum;
        if (sum > largest) largest = sum; /* a NaN stays among the scores and makes the sum NaN */
    }
    return largest;
}

static eb_status run_attention(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    double *scores = scratch;
    const eb_tensor *y = eb_output(node);
    int last = y->rank - 1;
    int64_t rows = eb_size(y) / y->shape[last];
    int zero = node->ints[EB_INT_ATTENTION_MASKED_ROWS] == EB_ATTENTION_MASKED_ROWS_ZERO;
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        query p = locate(node, row);
        double largest = score(node, bases, &p, scores), sum = 0;
        if (largest == -INFINITY) largest = 0;
        for (int64_t t = 0; t < p.T; t++) sum += scores[t] = exp(scores[t] - largest);
        for (int64_t e = 0; e < p.E; e++) {
            double value = 0;
            for (int64_t t = 0; t < p.T; t++)
                value += scores[t] * eb_load_real(p.v->dtype, eb_data(p.v, bases),
                                                  p.v_at + t * p.v->stride[last - 1] + e * p.v->stride[last]);
            /* Weights of zero leave 0, or NaN where a value is NaN. No keys at all is an empty sum, 0 under either rule. */
            if (sum != 0)
                value /= sum;
            else if (!zero && p.T)
                value = NAN;
            eb_store_real(y->dtype, eb_data(y, bases), p.y_at + e * y->stride[last], value);
        }
    }
    return EB_OK;
}
const eb_kernel any_attention__generic_reference = {plan_attention, run_attention};
