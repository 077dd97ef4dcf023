/* attention: softmax(scale * Q @ K^T + mask) @ V without an S x T matrix.
 *
 * A tile is a block of EB_NR queries of one head. Queries lie along the vectors, so everything is transposed:
 *
 *            EB_NR queries                                    EB_NR queries
 *   keys  [ scores = K @ Q^T ]   mask, max and sum go    E  [ out = V^T @ scores ]
 *                                straight down
 *
 * Both products read K and V through broadcasts, so these need no packing and may have any strides; Q is transposed
 * once a tile, the result once at its end. Keys come in blocks, with the usual running maximum and sum
 * (Milakov and Gimelshein 2018, Dao et al. 2022).
 */
#include "attention_problem.h"
#include "gemm.h"

enum { KEYS = 128 }; /* keys a block: their scores (16 KiB with AVX-512) stay in the first-level cache */

static eb_status plan(eb_node *node) {
    if (!is_of_floats(node)) return EB_NOT_APPLICABLE;
    problem p = describe(node);
    node->tiles = p.E ? p.heads.count * eb_ceil_div(p.S, EB_NR) : 0;
    node->scratch_bytes = (p.D + eb_min(KEYS, p.T) + p.E) * EB_NR * 4;
    return EB_OK;
}

/* --- the mask: one row of scores is one key, one lane one query ---------------------------------------------------- */

typedef struct {
    const char *data; /* of the tile's first query */
    int64_t first;    /* position of the tile's first query */
    int queries, vectors;
} tile_mask;

static void mask_by_bool(const problem *p, const tile_mask *m, int64_t t, float *scores) {
    const uint8_t *takes_part = (const uint8_t *)m->data + t * p->mask_column;
    int32_t lanes[EB_NR] = {0};
    for (int q = 0; q < m->queries; q++) lanes[q] = -(takes_part[q * p->mask_row] != 0);
    for (int v = 0; v < m->vectors; v++) {
        vi keep;
        memcpy(&keep, lanes + v * EB_VL, sizeof keep);
        vf_store(scores + v * EB_VL, vf_select(keep, vf_load(scores + v * EB_VL), vf_set(-INFINITY)));
    }
}

static void mask_by_float(const problem *p, const tile_mask *m, int64_t t, float *scores) {
    const float *addend = (const float *)m->data + t * p->mask_column;
    float lanes[EB_NR] = {0};
    for (int q = 0; q < m->queries; q++) lanes[q] = addend[q * p->mask_row];
    for (int v = 0; v < m->vectors; v++)
        vf_store(scores + v * EB_VL, vf_load(scores + v * EB_VL) + vf_load(lanes + v * EB_VL));
}

/* The same mask for all queries (padding of keys). */
static void mask_by_key(const problem *p, const tile_mask *m, int64_t t, float *scores) {
    float addend = 0;
    if (p->mask_dtype == EB_BOOL) {
        if (((const uint8_t *)m->data)[t * p->mask_column]) return;
        for (int v = 0; v < m->vectors; v++) vf_store(scores + v * EB_VL, vf_set(-INFINITY));
        return;
    }
    addend = ((const float *)m->data)[t * p->mask_column];
    for (int v = 0; v < m->vectors; v++) vf_store(scores + v * EB_VL, vf_load(scores + v * EB_VL) + addend);
}

static void mask_block(const problem *p, const tile_mask *m, int64_t t0, int64_t t1, float *scores) {
    if (p->mask_dtype >= 0) {
        void (*apply)(const problem *, const tile_mask *, int64_t, float *) =
            p->mask_row == 0 ? mask_by_key : p->mask_dtype == EB_BOOL ? mask_by_bool : mask_by_float;
        for (int64_t t = t0; t < t1; t++) apply(p, m, t, scores + (t - t0) * EB_NR);
    }
    /* Causal: key t is seen by lane q if t <= first + q. */
    for (int64_t t = eb_max(t0, m->first + 1); p->causal && t < t1; t++)
        for (int v = 0; v < m->vectors; v++) {
            float *row = scores + (t - t0) * EB_NR + v * EB_VL;
            int64_t hidden = eb_max(0, eb_min(EB_VL, t - m->first - v * EB_VL));
            vf_store(row, vf_select(vf_first(hidden), vf_set(-INFINITY), vf_load(row)));
        }
}

/* --- softmax over a block of keys ---------------------------------------------------------------------------------- */

typedef struct {
    vf top[2], sum[2];
} running;

/* Scores become weights; `out` [E x queries] is brought to the new maximum. A NaN score takes no part in the maximum
 * and makes the sum NaN. */
static void soften(running *state, float *scores, int64_t keys, float *out, int64_t E, int vectors, int first) {
    for (int v = 0; v < vectors; v++) {
        vf top = state->top[v], sum = vf_set(0);
        for (int64_t t = 0; t < keys; t++) top = vf_max(vf_load(scores + t * EB_NR + v * EB_VL), top);
        vf base = vf_select(top == -INFINITY, vf_set(0), top); /* nothing seen yet: the weights are exp(-inf) */
        for (int64_t t = 0; t < keys; t++) {
            float *at = scores + t * EB_NR + v * EB_VL;
            vf weight = vf_exp_nonpositive(vf_load(at) - base);
            vf_store(at, weight);
            sum += weight;
        }
        if (!first) {
            vf shrink = vf_exp_nonpositive(state->top[v] - base);
            sum += state->sum[v] * shrink;
            for (int64_t e = 0; e < E; e++) vf_store(out + e * EB_NR + v * EB_VL, vf_load(out + e * EB_NR + v * EB_VL) * shrink);
        }
        state->top[v] = top;
        state->sum[v] = sum;
    }
}

/* out [E x queries] / sum, turned round, to y [queries x E]. */
static void write_out(const problem *p, const running *state, float *out, int queries, float *y) {
    /* With nothing to attend to, `out` is what weights of zero leave of the values: 0, or NaN where a value is NaN. */
    vf nothing = vf_set(p->zero ? 1 : NAN);
    for (int v = 0; v * EB_VL < queries; v++) {
        int rows = (int)eb_min(EB_VL, queries - v * EB_VL);
        vf factor = vf_select(state->sum[v] == 0.0f, nothing, 1.0f / state->sum[v]);
        for (int64_t e = 0; e < p->E; e += EB_VL) {
            int64_t columns = eb_min(EB_VL, p->E - e);
            vf block[EB_VL];
            EB_UNROLL
            for (int i = 0; i < EB_VL; i++)
                block[i] = i < columns ? vf_load(out + (e + i) * EB_NR + v * EB_VL) * factor : vf_set(0);
            vf_transpose(block);
            for (int i = 0; i < rows; i++) {
                float *target = y + (v * EB_VL + i) * p->y_row + e;
                if (columns == EB_VL)
                    vf_store(target, block[i]);
                else
                    vf_store_part(target, block[i], columns);
            }
        }
    }
}

/* --- a tile -------------------------------------------------------------------------------------------------------- */

static void attend(const problem *p, const float *q, const float *k, const float *v, const tile_mask *m, float *y,
                   float *scratch) {
    float *queries = scratch, *out = queries + p->D * EB_NR, *scores = out + p->E * EB_NR;
    pack_panel(q, p->q_column, p->q_row, p->D, m->queries, queries);
    running state = {.top = {vf_set(-INFINITY), vf_set(-INFINITY)}};
    int64_t T = p->causal ? eb_min(p->T, m->first + m->queries) : p->T;
    if (T == 0) memset(out, 0, (size_t)(p->E * EB_NR) * 4);
    for (int64_t t = 0; t < T; t += KEYS) {
        int64_t keys = eb_min(KEYS, T - t);
        eb_product score = {.M = keys, .columns = m->vectors * EB_VL, .K = p->D,
                            .x = k + t * p->k_row, .x_row = p->k_row, .x_k = p->k_column,
                            .b = queries, .ldb = EB_NR, .y = scores, .ldy = EB_NR, .alpha = p->scale};
        multiply_panel(&score);
        mask_block(p, m, t, t + keys, scores);
        soften(&state, scores, keys, out, p->E, m->vectors, t == 0);
        eb_product weigh = {.M = p->E, .columns = m->vectors * EB_VL, .K = keys,
                            .x = v + t * p->v_row, .x_row = p->v_column, .x_k = p->v_row,
                            .b = scores, .ldb = EB_NR, .y = out, .ldy = EB_NR, .alpha = 1,
                            .residual = t ? out : NULL, .ldr = EB_NR};
        multiply_panel(&weigh);
    }
    write_out(p, &state, out, m->queries, y);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    problem p = describe(node);
    const float *q = eb_data(eb_input(node, 0), bases), *k = eb_data(eb_input(node, 1), bases);
    const float *v = eb_data(eb_input(node, 2), bases);
    const char *mask = p.mask_dtype >= 0 ? eb_data(eb_input(node, 3), bases) : NULL;
    int64_t mask_size = p.mask_dtype == EB_BOOL ? 1 : 4, blocks = eb_ceil_div(p.S, EB_NR);
    float *y = eb_data(eb_output(node), bases);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t head = tile / blocks, first = tile % blocks * EB_NR;
        eb_cursor at, shared;
        eb_cursor_seek(&p.heads, &at, head);
        eb_cursor_seek(&p.groups, &shared, head / p.share); /* heads that share follow each other */
        tile_mask m = {.first = first, .queries = (int)eb_min(EB_NR, p.S - first)};
        m.vectors = 1 + (m.queries > EB_VL);
        if (mask) m.data = mask + (at.offset[1] + first * p.mask_row) * mask_size;
        attend(&p, q + at.offset[0] + first * p.q_row, k + shared.offset[0], v + shared.offset[1], &m,
               y + at.offset[2] + first * p.y_row, scratch);
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(attention, flash) = {plan, run, NULL, NULL};
