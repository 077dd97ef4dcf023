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
 * (Milakov and Gimelshein 2018, Dao et al. 2022). Keys and values of bfloat16 become floats block by block, in scratch.
 */
#include "attention_problem.h"
#include "floats16.h"
#include "gemm.h"

enum { KEYS = 128 }; /* keys a block: their scores (16 KiB with AVX-512) stay in the first-level cache */

static eb_status plan(eb_node *node) {
    if (!fits_layouts(node)) return EB_NOT_APPLICABLE;
    problem p = describe(node);
    node->tiles = p.E ? p.heads.count * eb_ceil_div(p.S, EB_NR) : 0;
    node->scratch_bytes = (p.D + eb_min(KEYS, p.T) + p.E) * EB_NR * 4;
    return EB_OK;
}

static eb_status plan_bfloats(eb_node *node) {
    if (!has_types(node, EB_BF16)) return EB_NOT_APPLICABLE;
    const problem p = describe(node);
    const eb_status status = plan(node);
    node->scratch_bytes += KEYS * eb_max(p.D, p.E) * 4;
    return status;
}

/* Keys or values of one head. */
typedef struct {
    const void *data;
    int64_t row, column, width;
    int narrow; /* bfloat16, not floats */
} kept_rows;

static kept_rows take_head(const eb_node *node, void *const *bases, int input, int64_t offset) {
    const eb_tensor *t = eb_input(node, input);
    const int narrow = t->dtype == EB_BF16;
    return (kept_rows){(const char *)eb_data(t, bases) + offset * (narrow ? 2 : 4), t->stride[t->rank - 2], t->stride[t->rank - 1],
                       t->shape[t->rank - 1], narrow};
}

/* Rows [t, t + count) as floats: where they lie, or in `wide`. `*row` and `*column` become the strides. */
static const float *read_rows(const kept_rows *rows, int64_t t, int64_t count, float *wide, int64_t *row, int64_t *column) {
    *row = rows->narrow ? rows->width : rows->row;
    *column = rows->narrow ? 1 : rows->column;
    if (!rows->narrow) return (const float *)rows->data + t * rows->row;
    const uint16_t *from = (const uint16_t *)rows->data + t * rows->row;
    float *to = wide;
    for (int64_t i = 0; i < count; i++, from += rows->row, to += rows->width) {
        int64_t c = 0;
        for (; rows->column == 1 && c + EB_VL <= rows->width; c += EB_VL) vf_store(to + c, vf_load_bfloats(from + c));
        for (; c < rows->width; c++) to[c] = float_of((uint32_t)from[c * rows->column] << 16);
    }
    return wide;
}

/* --- the mask: one row of scores is one key, one lane one query ---------------------------------------------------- */

typedef struct {
    const char *data; /* of the tile's first query */
    int64_t first;    /* position of the tile's first query */
    int queries;
    int begin, end; /* vectors of queries that take part: [begin, end) */
} tile_mask;

static void mask_by_bool(const problem *p, const tile_mask *m, int64_t t, float *scores) {
    const uint8_t *takes_part = (const uint8_t *)m->data + t * p->mask_column;
    int32_t lanes[EB_NR] = {0};
    for (int q = 0; q < m->queries; q++) lanes[q] = -(takes_part[q * p->mask_row] != 0);
    for (int v = m->begin; v < m->end; v++) {
        vi keep;
        memcpy(&keep, lanes + v * EB_VL, sizeof keep);
        vf_store(scores + v * EB_VL, vf_select(keep, vf_load(scores + v * EB_VL), vf_set(-INFINITY)));
    }
}

static void mask_by_float(const problem *p, const tile_mask *m, int64_t t, float *scores) {
    const float *addend = (const float *)m->data + t * p->mask_column;
    float lanes[EB_NR] = {0};
    for (int q = 0; q < m->queries; q++) lanes[q] = addend[q * p->mask_row];
    for (int v = m->begin; v < m->end; v++)
        vf_store(scores + v * EB_VL, vf_load(scores + v * EB_VL) + vf_load(lanes + v * EB_VL));
}

/* The same mask for all queries (padding of keys). */
static void mask_by_key(const problem *p, const tile_mask *m, int64_t t, float *scores) {
    float addend = 0;
    if (p->mask_dtype == EB_BOOL) {
        if (((const uint8_t *)m->data)[t * p->mask_column]) return;
        for (int v = m->begin; v < m->end; v++) vf_store(scores + v * EB_VL, vf_set(-INFINITY));
        return;
    }
    addend = ((const float *)m->data)[t * p->mask_column];
    for (int v = m->begin; v < m->end; v++) vf_store(scores + v * EB_VL, vf_load(scores + v * EB_VL) + addend);
}

typedef uint8_t bytes __attribute__((vector_size(EB_VL)));

/* EB_VL keys from t on, where a query's mask is contiguous: rows of it are queries, rows of scores are keys. */
static void mask_square(const problem *p, const tile_mask *m, int64_t t, float *scores) {
    for (int v = m->begin; v < m->end; v++) {
        vf rows[EB_VL];
        EB_UNROLL
        for (int i = 0; i < EB_VL; i++) {
            int64_t at = (v * EB_VL + i) * p->mask_row + t;
            rows[i] = vf_set(0);
            if (v * EB_VL + i >= m->queries) continue;
            if (p->mask_dtype == EB_BOOL) {
                bytes b;
                memcpy(&b, m->data + at, sizeof b);
                rows[i] = (vf)(__builtin_convertvector(b, vi) != 0);
            } else {
                rows[i] = vf_load((const float *)m->data + at);
            }
        }
        vf_transpose(rows);
        for (int i = 0; i < EB_VL; i++) {
            float *row = scores + i * EB_NR + v * EB_VL;
            if (p->mask_dtype == EB_BOOL)
                vf_store(row, vf_select((vi)rows[i], vf_load(row), vf_set(-INFINITY)));
            else
                vf_store(row, vf_load(row) + rows[i]);
        }
    }
}

static void mask_block(const problem *p, const tile_mask *m, int64_t t0, int64_t t1, float *scores) {
    if (p->mask_dtype >= 0) {
        void (*apply)(const problem *, const tile_mask *, int64_t, float *) =
            p->mask_row == 0 ? mask_by_key : p->mask_dtype == EB_BOOL ? mask_by_bool : mask_by_float;
        int64_t t = t0;
        if (p->mask_row != 0 && p->mask_column == 1)
            for (; t + EB_VL <= t1; t += EB_VL) mask_square(p, m, t, scores + (t - t0) * EB_NR);
        for (; t < t1; t++) apply(p, m, t, scores + (t - t0) * EB_NR);
    }
    /* Causal: key t is seen by lane q if t <= first + q. */
    for (int64_t t = eb_max(t0, m->first + 1); p->causal && t < t1; t++)
        for (int v = m->begin; v < m->end; v++) {
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
static void soften(running *state, float *scores, int64_t keys, float *out, int64_t E, const tile_mask *m, int first) {
    for (int v = m->begin; v < m->end; v++) {
        vf top = state->top[v], sum = vf_set(0);
        for (int64_t t = 0; t < keys; t++) top = vf_max(vf_load(scores + t * EB_NR + v * EB_VL), top);
        vf base = vf_select(top == -INFINITY, vf_set(0), top); /* nothing seen yet: the weights are exp(-inf) */
        for (int64_t t = 0; t < keys; t++) {
            float *at = scores + t * EB_NR + v * EB_VL;
            vf weight = softmax_weight(vf_load(at), base);
            vf_store(at, weight);
            sum += weight;
        }
        if (!first) {
            vf shrink = softmax_weight(state->top[v], base);
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

typedef struct {
    float *queries, *out, *scores; /* [D, EB_NR], [E, EB_NR], [KEYS, EB_NR] */
    float *wide;                   /* a block of keys or of values, if they are bfloat16 */
} workspace;

/* Keys [t, t + keys) for the tile's vectors of queries. */
static void attend_block(const problem *p, const kept_rows *k, const kept_rows *v, int64_t t, int64_t keys, const tile_mask *m,
                         const workspace *w, running *state) {
    int64_t at = m->begin * EB_VL, columns = (m->end - m->begin) * EB_VL, row, column;
    const float *x = read_rows(k, t, keys, w->wide, &row, &column);
    eb_product score = {.M = keys, .columns = columns, .K = p->D,
                        .x = x, .x_row = row, .x_k = column,
                        .b = w->queries + at, .ldb = EB_NR, .y = w->scores + at, .ldy = EB_NR, .alpha = p->scale};
    multiply_panel(&score);
    mask_block(p, m, t, t + keys, w->scores);
    soften(state, w->scores, keys, w->out, p->E, m, t == 0);
    x = read_rows(v, t, keys, w->wide, &row, &column);
    eb_product weigh = {.M = p->E, .columns = columns, .K = keys,
                        .x = x, .x_row = column, .x_k = row,
                        .b = w->scores + at, .ldb = EB_NR, .y = w->out + at, .ldy = EB_NR, .alpha = 1,
                        .residual = t ? w->out + at : NULL, .ldr = EB_NR};
    multiply_panel(&weigh);
}

static void attend(const problem *p, const float *q, const kept_rows *k, const kept_rows *v, tile_mask m, float *y, float *scratch) {
    workspace w = {scratch, scratch + p->D * EB_NR, scratch + (p->D + p->E) * EB_NR};
    w.wide = w.scores + eb_min(KEYS, p->T) * EB_NR;
    pack_panel(q, p->q_column, p->q_row, p->D, m.queries, w.queries);
    running state = {.top = {vf_set(-INFINITY), vf_set(-INFINITY)}};
    int64_t T = p->causal ? eb_min(p->T, m.first + m.queries) : p->T;
    /* The last keys of a causal tile are seen by its second vector of queries alone. */
    int64_t both = p->causal ? eb_min(T, m.first + EB_VL) : T;
    if (T == 0) memset(w.out, 0, (size_t)(p->E * EB_NR) * 4);
    for (int64_t t = 0; t < both; t += KEYS) attend_block(p, k, v, t, eb_min(KEYS, both - t), &m, &w, &state);
    m.begin = 1;
    if (both < T) attend_block(p, k, v, both, T - both, &m, &w, &state);
    write_out(p, &state, w.out, m.queries, y);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    problem p = describe(node);
    const float *q = eb_data(eb_input(node, EB_IN_ATTENTION_QUERY), bases);
    const char *mask = p.mask_dtype >= 0 ? eb_data(eb_input(node, EB_IN_ATTENTION_MASK), bases) : NULL;
    int64_t mask_size = p.mask_dtype == EB_BOOL ? 1 : 4, blocks = eb_ceil_div(p.S, EB_NR);
    float *y = eb_data(eb_output(node), bases);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t head = tile / blocks, first = tile % blocks * EB_NR;
        eb_cursor at, shared;
        eb_cursor_seek(&p.heads, &at, head);
        eb_cursor_seek(&p.groups, &shared, head / p.share); /* heads that share follow each other */
        tile_mask m = {.first = first, .queries = (int)eb_min(EB_NR, p.S - first)};
        m.end = 1 + (m.queries > EB_VL);
        if (mask) m.data = mask + (at.offset[1] + first * p.mask_row) * mask_size;
        const kept_rows k = take_head(node, bases, EB_IN_ATTENTION_KEY, shared.offset[0]);
        const kept_rows v = take_head(node, bases, EB_IN_ATTENTION_VALUE, shared.offset[1]);
        attend(&p, q + at.offset[0] + first * p.q_row, &k, &v, m, y + at.offset[2] + first * p.y_row, scratch);
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(attention, flash) = {plan, run};
const eb_kernel EB_PASTE(any_attention, __, EB_ISA, _, flash, ) = {plan_bfloats, run};
