/* attention of few queries against many keys, as a decoder asks for it: bound by reading K and V. A file that includes this header
 * first defines
 *
 *   element        type of an element of K and V
 *   ELEMENT_TYPE   enumerator: its eb_dtype
 *   load_elements  EB_VL elements as floats
 *   load_part      the first `count` elements as floats, the rest zero; 0 <= count <= EB_VL
 *
 * Queries, scores and the result are floats.
 *
 * A tile is one head of K and V with all queries that look at it: those of every query head of its group. Where heads are
 * few and keys many, it is a part of the keys, and a join of each head brings the parts together. Nothing is transposed:
 * along the head's size lie the vectors of
 *
 *   scores = Q @ K^T   EB_VL keys at a time, each its own sum, folded to one vector of scores at the end
 *   out += weights @ V   weights are broadcast, rows of V are added up in registers
 *
 * So K and V are read once, whatever the number of queries. Keys come in blocks with a running maximum and sum; of a
 * block that part is read which some query's mask of bools lets it see.
 */
#ifndef EB_ATTENTION_DECODE_H
#define EB_ATTENTION_DECODE_H

#include "attention_problem.h"

enum {
    KEYS = 256,              /* keys a block; a multiple of any EB_VL */
    TILES = 16, LEAST_BLOCKS = 2, /* keys are cut into parts up to so many tiles, none of fewer blocks */
    SUMS = EB_VL == 16 ? 16 : 8, /* registers for what `weigh` adds up */
    QUERIES = EB_VL == 16 ? 16 : 8, /* registers for vectors of queries in `add_products` */
    MOST_QUERIES = EB_VL == 4 ? 2 : 6 /* a head: from here on lanes that are queries win (measured at 1024 keys of 64) */
};

typedef struct {
    int64_t rows, depth, width; /* queries of the group; D and E rounded up to whole vectors */
    float *queries, *scores, *out; /* [rows, depth], [rows, KEYS], [rows, width] */
    float *top, *sum;              /* a row: running maximum, running sum */
} workspace;

/* Parts that the keys of a head are cut into: by shapes alone, so that bits do not depend on the number of threads. */
static int64_t count_parts(const problem *p) {
    int64_t T = p->causal ? eb_min(p->T, p->S) : p->T, groups = eb_max(1, p->heads.count / p->share);
    return eb_max(1, eb_min(eb_ceil_div(TILES, groups), T / (LEAST_BLOCKS * KEYS)));
}

/* Floats of a workspace's result: out, top and sum; in whole cache lines. */
static int64_t result_floats(const workspace *w) { return eb_ceil_div(w->rows * (w->width + 2), 16) * 16; }

/* `result`: where out, top and sum lie; NULL: in scratch, behind the rest. */
static workspace lay_out(const problem *p, float *scratch, float *result) {
    workspace w = {.rows = p->S * p->share};
    w.depth = eb_ceil_div(p->D, EB_VL) * EB_VL;
    w.width = eb_ceil_div(p->E, EB_VL) * EB_VL;
    w.queries = scratch;
    w.scores = w.queries + w.rows * w.depth;
    w.out = result ? result : w.scores + w.rows * KEYS;
    w.top = w.out + w.rows * w.width;
    w.sum = w.top + w.rows;
    return w;
}

static eb_status plan(eb_node *node) {
    if (!fits_layouts(node) || !has_types(node, ELEMENT_TYPE)) return EB_NOT_APPLICABLE;
    problem p = describe(node);
    if (p.S > MOST_QUERIES || p.E == 0) return EB_NOT_APPLICABLE;
    if ((p.k_column != 1 && p.D > 1) || (p.v_column != 1 && p.E > 1)) return EB_NOT_APPLICABLE;
    workspace w = lay_out(&p, NULL, NULL);
    int64_t groups = p.S ? p.heads.count / p.share : 0, parts = count_parts(&p);
    node->tiles = groups * parts;
    node->scratch_bytes = eb_multiply(w.rows * (w.depth + KEYS) + result_floats(&w), 4);
    if (parts == 1) return EB_OK;
    node->joins = groups;
    node->shared_bytes = EB_MULTIPLY(groups, parts, result_floats(&w), 4);
    return EB_OK;
}

/* --- scores -------------------------------------------------------------------------------------------------------- */

/* Lane i of the answer is the sum of the lanes of rows[i]; each round adds halves and interleaves two rows. */
EB_INLINE vf fold(vf *rows) {
    EB_UNROLL
    for (int half = EB_VL / 2; half; half /= 2)
        EB_UNROLL
        for (int i = 0; i < half; i++)
            rows[i] = EB_SHUFFLE(rows[i], rows[i + half], EB_LOW_HALVES) + EB_SHUFFLE(rows[i], rows[i + half], EB_HIGH_HALVES);
    return rows[0];
}

/* R queries by `keys` keys, over V vectors of each, which for the queries stay in registers. sums [R, keys] vectors: = the
 * sums in lanes, or += them, if `more`. Keys are read one by one, in the order of memory, and little else is: a core runs
 * ahead by as many loads as it can hold. */
EB_INLINE void add_products(const float *query, int64_t depth, const element *k, int64_t k_row, float *sums, int keys, int more,
                            const int R, const int V) {
    vf own[4][8];
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int c = 0; c < V; c++) own[r][c] = vf_load(query + r * depth + c * EB_VL);
    for (int i = 0; i < keys; i++, k += k_row) {
        vf sum[4];
        EB_UNROLL
        for (int r = 0; r < R; r++) sum[r] = more ? vf_load(sums + (r * keys + i) * EB_VL) : vf_set(0);
        EB_UNROLL
        for (int c = 0; c < V; c++) {
            vf key = load_elements(k + c * EB_VL);
            EB_UNROLL
            for (int r = 0; r < R; r++) sum[r] += own[r][c] * key;
        }
        EB_UNROLL
        for (int r = 0; r < R; r++) vf_store(sums + (r * keys + i) * EB_VL, sum[r]);
    }
}

/* `score_keys` for heads of V vectors, where the sums stay in registers, too. */
EB_INLINE vf score_short_keys(const problem *p, const float *query, int64_t depth, const element *k, const int R, const int V) {
    const int keys = EB_VL / R;
    vf sums[EB_VL], own[4][8];
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int c = 0; c < V; c++) own[r][c] = vf_load(query + r * depth + c * EB_VL);
    EB_UNROLL
    for (int i = 0; i < keys; i++) {
        EB_UNROLL
        for (int c = 0; c < V; c++) {
            vf key = load_elements(k + i * p->k_row + c * EB_VL);
            EB_UNROLL
            for (int r = 0; r < R; r++) sums[r * keys + i] = c ? sums[r * keys + i] + own[r][c] * key : own[r][c] * key;
        }
    }
    return fold(sums) * p->scale;
}

/* R queries by EB_VL / R keys -> their scores, those of the first query first. `query`: rows [depth], zeros behind D. */
EB_INLINE vf score_keys(const problem *p, const float *query, int64_t depth, const element *k, const int R) {
    float sums[EB_VL * EB_VL];
    const int keys = EB_VL / R, wide = QUERIES / R < 8 ? QUERIES / R : 8, half = wide / 2;
    if (p->D == half * EB_VL) return score_short_keys(p, query, depth, k, R, half);
    int64_t d = 0;
    for (; d + wide * EB_VL <= p->D; d += wide * EB_VL) add_products(query + d, depth, k + d, p->k_row, sums, keys, d > 0, R, wide);
    for (; d + half * EB_VL <= p->D; d += half * EB_VL) add_products(query + d, depth, k + d, p->k_row, sums, keys, d > 0, R, half);
    for (; d + EB_VL <= p->D; d += EB_VL) add_products(query + d, depth, k + d, p->k_row, sums, keys, d > 0, R, 1);
    vf rows[EB_VL];
    EB_UNROLL
    for (int j = 0; j < EB_VL; j++) {
        rows[j] = d ? vf_load(sums + j * EB_VL) : vf_set(0);
        if (d < p->D) rows[j] += vf_load(query + j / keys * depth + d) * load_part(k + j % keys * p->k_row + d, p->D - d);
    }
    return fold(rows) * p->scale;
}

static float score_key(const problem *p, const float *query, const element *k) {
    int64_t whole = p->D / EB_VL * EB_VL, rest = p->D - whole;
    vf sum = vf_set(0);
    for (int64_t d = 0; d < whole; d += EB_VL) sum += vf_load(query + d) * load_elements(k + d);
    if (rest) sum += vf_load(query + whole) * load_part(k + whole, rest);
    return vf_sum(sum) * p->scale;
}

/* R queries from row `row` on by all keys. */
EB_INLINE void score_rows(const problem *p, const workspace *w, int64_t row, const element *k, int64_t keys, const int R) {
    const float *query = w->queries + row * w->depth;
    float *scores = w->scores + row * KEYS;
    const int step = EB_VL / R;
    int64_t i = 0;
    for (; i + step <= keys; i += step) {
        vf found = score_keys(p, query, w->depth, k + i * p->k_row, R);
        float lanes[EB_VL];
        if (R == 1) {
            vf_store(scores + i, found);
            continue;
        }
        vf_store(lanes, found);
        EB_UNROLL
        for (int r = 0; r < R; r++) memcpy(scores + r * KEYS + i, lanes + r * step, (size_t)step * 4);
    }
    for (; i < keys; i++)
        for (int r = 0; r < R; r++) scores[r * KEYS + i] = score_key(p, query + r * w->depth, k + i * p->k_row);
}

static void score_block(const problem *p, const workspace *w, const element *k, int64_t keys) {
    int64_t row = 0;
    for (; row + 4 <= w->rows; row += 4) score_rows(p, w, row, k, keys, 4);
    if (row + 2 <= w->rows) score_rows(p, w, row, k, keys, 2), row += 2;
    if (row < w->rows) score_rows(p, w, row, k, keys, 1);
}

/* The mask of one query from key t0 on, then causality: key t is seen by query s if t <= s. */
static void mask_scores(const problem *p, const char *mask, int64_t s, int64_t t0, int64_t keys, float *scores) {
    if (p->mask_dtype == EB_BOOL)
        for (int64_t t = 0; t < keys; t++) {
            if (!((const uint8_t *)mask)[(t0 + t) * p->mask_column]) scores[t] = -INFINITY;
        }
    else if (p->mask_dtype == EB_F32)
        for (int64_t t = 0; t < keys; t++) scores[t] += ((const float *)mask)[(t0 + t) * p->mask_column];
    for (int64_t t = eb_max(0, s + 1 - t0); p->causal && t < keys; t++) scores[t] = -INFINITY;
}

/* Scores become weights; `out` is brought to the new maximum. A NaN score takes no part in the maximum and makes the
 * sum NaN. */
static void soften(float *scores, int64_t keys, float *top, float *sum, float *out, int64_t width) {
    int64_t end = eb_ceil_div(keys, EB_VL) * EB_VL;
    for (int64_t t = keys; t < end; t++) scores[t] = -INFINITY;
    vf most = vf_set(*top), total = vf_set(0);
    for (int64_t t = 0; t < end; t += EB_VL) most = vf_max(vf_load(scores + t), most);
    float largest = vf_largest(most), base = largest == -INFINITY ? 0 : largest;
    for (int64_t t = 0; t < end; t += EB_VL) {
        vf weight = softmax_weight(vf_load(scores + t), vf_set(base));
        vf_store(scores + t, weight);
        total += weight;
    }
    float shrink = softmax_weight(vf_set(*top), vf_set(base))[0];
    *sum = *sum * shrink + vf_sum(total);
    *top = largest;
    for (int64_t e = 0; e < width; e += EB_VL) vf_store(out + e, vf_load(out + e) * shrink);
}

/* --- values -------------------------------------------------------------------------------------------------------- */

/* R rows of out, V vectors of each: += weights @ v. */
EB_INLINE void weigh_part(const workspace *w, const float *weights, const element *v, int64_t v_row, int64_t keys, float *out,
                          const int R, const int V) {
    vf sums[4][8];
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int c = 0; c < V; c++) sums[r][c] = vf_load(out + r * w->width + c * EB_VL);
    for (int64_t t = 0; t < keys; t++, v += v_row) {
        vf values[8];
        EB_UNROLL
        for (int c = 0; c < V; c++) values[c] = load_elements(v + c * EB_VL);
        EB_UNROLL
        for (int r = 0; r < R; r++) {
            vf weight = vf_set(weights[r * KEYS + t]);
            EB_UNROLL
            for (int c = 0; c < V; c++) sums[r][c] += weight * values[c];
        }
    }
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int c = 0; c < V; c++) vf_store(out + r * w->width + c * EB_VL, sums[r][c]);
}

/* The columns behind the last whole vector. */
static void weigh_rest(const float *weights, const element *v, int64_t v_row, int64_t keys, float *out, int64_t columns) {
    vf sum = vf_load(out);
    for (int64_t t = 0; t < keys; t++) sum += weights[t] * load_part(v + t * v_row, columns);
    vf_store(out, sum);
}

/* R rows of out [E] += weights [keys] @ v [keys, E], as wide as registers go: V is read in whole rows. */
EB_INLINE void weigh_rows(const problem *p, const workspace *w, int64_t row, const element *v, int64_t keys, const int R) {
    const float *weights = w->scores + row * KEYS;
    float *out = w->out + row * w->width;
    int64_t e = 0;
    const int wide = SUMS / R < 8 ? SUMS / R : 8, half = wide / 2;
    for (; e + wide * EB_VL <= p->E; e += wide * EB_VL) weigh_part(w, weights, v + e, p->v_row, keys, out + e, R, wide);
    for (; e + half * EB_VL <= p->E; e += half * EB_VL) weigh_part(w, weights, v + e, p->v_row, keys, out + e, R, half);
    for (; e + EB_VL <= p->E; e += EB_VL) weigh_part(w, weights, v + e, p->v_row, keys, out + e, R, 1);
    for (int r = 0; r < R && e < p->E; r++)
        weigh_rest(weights + r * KEYS, v + e, p->v_row, keys, out + r * w->width + e, p->E - e);
}

static void weigh(const problem *p, const workspace *w, const element *v, int64_t keys) {
    int64_t row = 0;
    for (; row + 4 <= w->rows; row += 4) weigh_rows(p, w, row, v, keys, 4);
    if (row + 2 <= w->rows) weigh_rows(p, w, row, v, keys, 2), row += 2;
    if (row < w->rows) weigh_rows(p, w, row, v, keys, 1);
}

/* --- a tile -------------------------------------------------------------------------------------------------------- */

typedef struct {
    problem p;
    const float *q;
    const element *k, *v; /* of this head */
    const char *mask;
    float *y;
    int64_t group; /* which head of K and V */
} head;

/* Row `r` of the head's queries: offsets into q, mask and y of its query head. */
static eb_cursor find_query(const head *h, int64_t r) {
    eb_cursor at;
    eb_cursor_seek(&h->p.heads, &at, h->group * h->p.share + r / h->p.S);
    return at;
}

/* Up to which of `keys` keys from t0 on some query of the head may look by its mask of bools. What lies behind is not read:
 * a cache is mostly room for tokens that are still to come. */
static int64_t count_seen(const head *h, int64_t t0, int64_t keys) {
    const problem *p = &h->p;
    if (p->mask_dtype != EB_BOOL) return keys;
    int64_t seen = 0, rows = p->share * p->S;
    for (int64_t r = 0; r < rows && seen < keys; r++) {
        const char *mask = h->mask + find_query(h, r).offset[1] + r % p->S * p->mask_row + t0 * p->mask_column;
        int64_t own = keys;
        while (own > seen && !mask[(own - 1) * p->mask_column]) own--;
        seen = own;
    }
    return seen;
}

/* Blocks [begin, end) of the keys; out, top and sum of `w` receive what they come to. A function of its own: inside of
 * `run`, where more values are alive, gcc 12 makes its loops 5 to 20% slower. */
__attribute__((noinline)) static void attend(const head *h, const workspace *w, int64_t begin, int64_t end) {
    const problem *p = &h->p;
    int64_t mask_size = p->mask_dtype == EB_BOOL ? 1 : 4;
    memset(w->queries, 0, (size_t)(w->rows * w->depth) * 4);
    memset(w->out, 0, (size_t)(w->rows * w->width) * 4);
    for (int64_t r = 0; r < w->rows; r++) {
        const float *row = h->q + find_query(h, r).offset[0] + r % p->S * p->q_row;
        for (int64_t d = 0; d < p->D; d++) w->queries[r * w->depth + d] = row[d * p->q_column];
        w->top[r] = -INFINITY, w->sum[r] = 0;
    }
    int64_t T = p->causal ? eb_min(p->T, p->S) : p->T;
    for (int64_t t = begin * KEYS; t < eb_min(T, end * KEYS); t += KEYS) {
        int64_t keys = count_seen(h, t, eb_min(KEYS, T - t));
        if (!keys) continue;
        score_block(p, w, h->k + t * p->k_row, keys);
        for (int64_t r = 0; r < w->rows; r++) {
            float *scores = w->scores + r * KEYS;
            if (h->mask || p->causal) {
                const char *own = h->mask ? h->mask + (find_query(h, r).offset[1] + r % p->S * p->mask_row) * mask_size : NULL;
                mask_scores(p, own, r % p->S, t, keys, scores);
            }
            soften(scores, keys, w->top + r, w->sum + r, w->out + r * w->width, w->width);
        }
        weigh(p, w, h->v + t * p->v_row, keys);
    }
}

/* Bring `part` into `w`: both to the larger of their maxima, then added. */
static void join(const workspace *w, const workspace *part) {
    for (int64_t r = 0; r < w->rows; r++) {
        float top = part->top[r] > w->top[r] ? part->top[r] : w->top[r], base = top == -INFINITY ? 0 : top;
        float mine = softmax_weight(vf_set(w->top[r]), vf_set(base))[0];
        float its = softmax_weight(vf_set(part->top[r]), vf_set(base))[0];
        float *out = w->out + r * w->width, *more = part->out + r * w->width;
        for (int64_t e = 0; e < w->width; e += EB_VL) vf_store(out + e, vf_load(out + e) * mine + vf_load(more + e) * its);
        w->sum[r] = w->sum[r] * mine + part->sum[r] * its;
        w->top[r] = top;
    }
}

static void write_result(const head *h, const workspace *w) {
    for (int64_t r = 0; r < w->rows; r++) {
        /* With nothing to attend to, `out` is what weights of zero leave of the values: 0, or NaN where one is NaN. */
        float factor = w->sum[r] == 0 ? (h->p.zero ? 1 : NAN) : 1 / w->sum[r];
        float *target = h->y + find_query(h, r).offset[2] + r % h->p.S * h->p.y_row;
        for (int64_t e = 0; e < h->p.E; e++) target[e] = w->out[r * w->width + e] * factor;
    }
}

/* Tile: part of a head's keys, head after head. Then, if there are several parts, a join for each head. */
static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    head h = {.p = describe(node),
              .q = eb_data(eb_input(node, EB_IN_ATTENTION_QUERY), bases),
              .y = eb_data(eb_output(node), bases)};
    const element *k = eb_data(eb_input(node, EB_IN_ATTENTION_KEY), bases);
    const element *v = eb_data(eb_input(node, EB_IN_ATTENTION_VALUE), bases);
    if (h.p.mask_dtype >= 0) h.mask = eb_data(eb_input(node, EB_IN_ATTENTION_MASK), bases);
    workspace w = lay_out(&h.p, scratch, NULL);
    int64_t parts = count_parts(&h.p), blocks = eb_ceil_div(h.p.T, KEYS), each = result_floats(&w);
    float *shared = node->shared_bytes ? eb_shared(node, bases) : NULL;
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t part = tile % parts;
        h.group = tile < node->tiles ? tile / parts : tile - node->tiles;
        if (tile < node->tiles) {
            eb_cursor at;
            eb_cursor_seek(&h.p.groups, &at, h.group);
            h.k = k + at.offset[0], h.v = v + at.offset[1];
            if (shared) w = lay_out(&h.p, scratch, shared + tile * each);
            attend(&h, &w, eb_piece(blocks, parts, part), eb_piece(blocks, parts, part + 1));
        } else {
            w = lay_out(&h.p, scratch, shared + h.group * parts * each);
            for (part = 1; part < parts; part++) {
                workspace other = lay_out(&h.p, scratch, shared + (h.group * parts + part) * each);
                join(&w, &other);
            }
        }
        if (!shared || tile >= node->tiles) write_result(&h, &w);
    }
    return EB_OK;
}

#endif
