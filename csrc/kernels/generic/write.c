/* Writing at positions: index_put and scatter in one form (positions.h), with every reduction.
 *
 * x is divided into blocks, one for each position of the axes before the first indexed one: blocks share no elements. Inside
 * of a block, positions are written in the order of the index: of several writes to a place the last one counts, or all are
 * combined one after the other, in sums of 64 bits that are rounded once. What is not written stays where the output lies
 * over x (a cache that has a token put into it), and is copied otherwise.
 *
 * Rows are combined line by line of x: a stable sort by counting brings the rows of a line together, so its sums stay in the
 * nearest cache (8192 rows of 64 floats into 1000: 191 us on Zen 3, with sums of all lines 362). Long rows are cut into
 * columns, which are tiles; each sorts the positions. Elements are combined in sums of the whole block. */
#include "../../engine.h"
#include "combine.h"
#include "positions.h"

enum { X = 0, TILE_BYTES = 1 << 16, COLUMNS = 1024 /* least number of a tile */ };
_Static_assert((int)EB_IN_SCATTER_X == X && (int)EB_IN_INDEX_PUT_X == X, "both ops write into x");

typedef struct {
    indexing r;
    int first_input, values, reduce;
    int lead;                                     /* axes before the block */
    int64_t limit[EB_MAX_RANK];                   /* of the index on these: it may be smaller than x */
    int64_t stride[EB_LOOP_OPERANDS][EB_MAX_RANK]; /* along them, of the values and the indices */
} writing;

static writing write_scatter(const eb_node *node) {
    const eb_tensor *source = eb_input(node, EB_IN_SCATTER_SOURCE), *index = eb_input(node, EB_IN_SCATTER_INDEX);
    writing w = {.values = EB_IN_SCATTER_SOURCE, .first_input = EB_IN_SCATTER_INDEX};
    w.lead = (int)node->ints[EB_INT_SCATTER_AXIS], w.reduce = (int)node->ints[EB_INT_SCATTER_REDUCE];
    for (int axis = 0; axis < w.lead; axis++) {
        w.limit[axis] = index->shape[axis];
        w.stride[PLAIN][axis] = source->stride[axis], w.stride[INDICES][axis] = index->stride[axis];
    }
    w.r = index_along(node, w.first_input, w.lead, source, eb_output(node), w.lead);
    split_rows(&w.r, w.reduce != EB_SCATTER_REDUCE_NONE);
    return w;
}

static writing write_index_put(const eb_node *node) {
    const int64_t axes = node->ints[EB_INT_INDEX_PUT_AXES];
    const eb_tensor *values = eb_input(node, EB_IN_INDEX_PUT_VALUES);
    const eb_indexed all = eb_indexed_axes(node, EB_IN_INDEX_PUT_INDICES, axes);
    writing w = {.values = EB_IN_INDEX_PUT_VALUES, .first_input = EB_IN_INDEX_PUT_INDICES, .lead = all.front};
    w.reduce = node->ints[EB_INT_INDEX_PUT_ACCUMULATE] ? EB_SCATTER_REDUCE_SUM : EB_SCATTER_REDUCE_NONE;
    for (int axis = 0; axis < w.lead; axis++) {
        w.limit[axis] = all.shape[axis];
        w.stride[PLAIN][axis] = eb_broadcast_stride(values, all.rank, axis);
    }
    w.r = index_axes(node, w.first_input, axes, values, eb_output(node), w.lead, 1);
    split_rows(&w.r, w.reduce != EB_SCATTER_REDUCE_NONE);
    return w;
}

typedef writing (*write_of)(const eb_node *node);

typedef struct {
    int64_t blocks, block; /* of x, and elements of one */
    int64_t each;          /* blocks of a tile */
    int64_t pieces;        /* that rows are cut into */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node, write_of write) {
    const eb_tensor *x = eb_input(node, X);
    const int is_scatter = write == write_scatter;
    const int first = is_scatter ? EB_IN_SCATTER_INDEX : EB_IN_INDEX_PUT_INDICES, last = is_scatter ? first + 1 : node->n_inputs;
    if (x->rank == 0 || !eb_is_dense(eb_output(node)) || !has_known_indices(node, first, last)) return EB_NOT_APPLICABLE;
    if (!is_scatter) {
        const eb_indexed all = eb_indexed_axes(node, first, node->ints[EB_INT_INDEX_PUT_AXES]);
        if (all.rank > EB_MAX_RANK || eb_multiply_all(all.shape, all.rank) >= EB_MOST_BYTES) return EB_NOT_APPLICABLE;
    }
    const writing w = write(node);
    if (w.reduce != EB_SCATTER_REDUCE_NONE && !find_combining(x->dtype)) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x)) return EB_NEEDS_DENSE;
    tiling *t = edit_tiling(node);
    t->blocks = eb_multiply_all(x->shape, w.lead), t->block = eb_multiply_all(x->shape + w.lead, x->rank - w.lead);
    const int64_t written = eb_multiply(w.r.loop.count, w.r.row);
    t->each = eb_max(1, TILE_BYTES / eb_max(1, (t->block + written) * eb_element_size(x->dtype)));
    t->pieces = 1;
    if (w.reduce != EB_SCATTER_REDUCE_NONE && w.r.has_rows) {
        t->pieces = eb_max(1, w.r.row / COLUMNS);
        const int64_t numbers = t->block / w.r.row + 1 + w.r.loop.count; /* of sorted_rows */
        node->scratch_bytes = (numbers + eb_ceil_div(w.r.row, t->pieces)) * SUM_SIZE;
    } else if (w.reduce != EB_SCATTER_REDUCE_NONE) {
        node->scratch_bytes = eb_max(1, t->block) * SUM_SIZE;
    }
    node->tiles = eb_ceil_div(t->blocks, t->each) * t->pieces;
    return EB_OK;
}

/* --- what is done with the positions of a block ---------------------------------------------------------------------- */

/* Elements to positions, `step` elements apart, which are read and checked in the same pass. Returns 0 if one is outside of
 * `size`. Not inlined: in the function that calls them, their variables would not stay in registers. */
#define PUT_ELEMENTS(bits)                                                                                            \
    static __attribute__((noinline)) int put_elements_##bits(const run_of_positions *m, const int64_t *index,         \
                                                              int64_t count, int64_t size, int64_t step) {             \
        uint##bits##_t *to = (uint##bits##_t *)m->to;                                                                  \
        const uint##bits##_t *from = (const uint##bits##_t *)m->from;                                                  \
        const int64_t to_step = m->to_step, from_step = m->from_step;                                                  \
        for (int64_t k = 0; k < count; k++, to += to_step) {                                                           \
            const int64_t position = index[k];                                                                         \
            if ((uint64_t)position >= (uint64_t)size) return 0;                                                        \
            to[position * step] = from[k * from_step];                                                                 \
        }                                                                                                              \
        return 1;                                                                                                      \
    }
PUT_ELEMENTS(8)
PUT_ELEMENTS(16)
PUT_ELEMENTS(32)
PUT_ELEMENTS(64)

static int put_elements(const run_of_positions *m, const int64_t *index, int64_t count, int64_t size, int64_t limit,
                        int64_t step) {
    switch (size) {
    case 1: return put_elements_8(m, index, count, limit, step);
    case 2: return put_elements_16(m, index, count, limit, step);
    case 4: return put_elements_32(m, index, count, limit, step);
    default: return put_elements_64(m, index, count, limit, step);
    }
}

/* Write a block, which begins at `target`: elements of the output, or (`by`) sums. Its values and indices begin at `start`. */
static eb_status write_block(const writing *w, const eb_node *node, void *const *bases, const combination *by, void *target,
                             const int64_t *start, position_block *block) {
    const eb_tensor *given = eb_input(node, w->values);
    const indexing *r = &w->r;
    const int inner = r->loop.rank - 1;
    const int64_t size = eb_element_size(given->dtype), row = r->row * size;
    const int has_own = has_own_index(r, node);
    const char *values = eb_data(given, bases);
    block->known = 0;
    eb_cursor at;
    eb_cursor_seek(&r->loop, &at, 0);
    for (int o = 0; o < r->loop.operands; o++) at.offset[o] += start[o];
    for (int64_t flat = 0; flat < r->loop.count;) {
        const int64_t count = eb_min(BLOCK, eb_cursor_run(&r->loop, &at, r->loop.count - flat));
        const run_of_positions m = {(char *)target + at.offset[INDEXED] * (by ? SUM_SIZE : size), values + at.offset[PLAIN] * size,
                                    r->loop.stride[INDEXED][inner], r->loop.stride[PLAIN][inner]};
        const int64_t *index = has_own ? (const int64_t *)block->data[0] + at.offset[INDICES] : block->offsets;
        const int64_t limit = has_own ? r->size[0] : INT64_MAX, step = has_own ? r->step[0] : 1;
        if (!has_own && !load_positions(block, r, node, &at, count)) return EB_INDEX_OUT_OF_RANGE;
        if (by || !r->has_rows) {
            const int is_inside = by ? by->elements(&m, index, count, limit, step)
                                     : put_elements(&m, index, count, size, limit, step);
            if (!is_inside) return EB_INDEX_OUT_OF_RANGE;
        } else
            for (int64_t k = 0; k < count; k++)
                copy_row(m.to + (block->offsets[k] + k * m.to_step) * size, m.from + k * m.from_step * size, row);
        eb_cursor_advance(&r->loop, &at, count);
        flat += count;
    }
    return EB_OK;
}

/* Where the values and the indices of block `number` begin. Returns 0 if the index has no part for it. */
static int seek_block(const writing *w, const eb_tensor *x, int64_t number, int64_t *start) {
    memset(start, 0, EB_LOOP_OPERANDS * sizeof *start);
    for (int axis = w->lead - 1; axis >= 0; number /= x->shape[axis--]) {
        const int64_t at = number % x->shape[axis];
        if (at >= w->limit[axis]) return 0;
        for (int o = 0; o < w->r.loop.operands; o++) start[o] += at * w->stride[o][axis];
    }
    return w->r.loop.count > 0;
}

static eb_status combine_elements(const writing *w, const eb_node *node, void *const *bases, int64_t number, void *sums,
                                  position_block *block) {
    const eb_tensor *x = eb_input(node, X);
    const combining *how = find_combining(x->dtype);
    const int64_t elements = tiling_of(node)->block, first = number * elements * eb_element_size(x->dtype);
    int64_t start[EB_LOOP_OPERANDS];
    how->widen(sums, (const char *)eb_data(x, bases) + first, elements);
    if (seek_block(w, x, number, start)) {
        const eb_status status = write_block(w, node, bases, &how->by[w->reduce], sums, start, block);
        if (status != EB_OK) return status;
    }
    how->narrow((char *)eb_data(eb_output(node), bases) + first, sums, elements);
    return EB_OK;
}

/* --- rows, line by line ----------------------------------------------------------------------------------------------- */

/* The rows of a block by the lines that they go to. */
typedef struct {
    int64_t lines;
    int64_t *ends; /* lines + 1: where the rows of each line end in `rows` */
    int64_t *rows; /* offsets in the values */
} sorted_rows;

/* Sort the rows of the block whose values and indices begin at `start`. */
static eb_status sort_rows(const writing *w, const eb_node *node, const int64_t *start, sorted_rows *s,
                           position_block *block) {
    indexing r = w->r;
    const int inner = r.loop.rank - 1;
    for (int i = 0; i < r.indices; i++) r.step[i] /= r.row; /* positions lead to lines */
    for (int axis = 0; axis <= inner; axis++) r.loop.stride[INDEXED][axis] /= r.row;
    memset(s->ends, 0, (size_t)(s->lines + 1) * sizeof *s->ends);
    for (int pass = 0; pass < 2; pass++) {
        block->known = 0;
        eb_cursor at;
        eb_cursor_seek(&r.loop, &at, 0);
        for (int o = 0; o < r.loop.operands; o++) at.offset[o] += start[o];
        for (int64_t flat = 0; flat < r.loop.count;) {
            const int64_t count = eb_min(BLOCK, eb_cursor_run(&r.loop, &at, r.loop.count - flat));
            if (!load_positions(block, &r, node, &at, count)) return EB_INDEX_OUT_OF_RANGE;
            for (int64_t k = 0; k < count; k++) {
                int64_t *end = &s->ends[block->offsets[k] + at.offset[INDEXED] + k * r.loop.stride[INDEXED][inner]];
                if (pass == 0)
                    end[1]++;
                else
                    s->rows[(*end)++] = at.offset[PLAIN] + k * r.loop.stride[PLAIN][inner];
            }
            eb_cursor_advance(&r.loop, &at, count);
            flat += count;
        }
        for (int64_t l = 0; l < s->lines && pass == 0; l++) s->ends[l + 1] += s->ends[l];
    }
    return EB_OK;
}

/* Combine columns [first, last) of the rows of a block with its lines. */
static eb_status combine_rows(const writing *w, const eb_node *node, void *const *bases, int64_t number, int64_t first,
                              int64_t last, int64_t *scratch, position_block *block) {
    const eb_tensor *x = eb_input(node, X);
    const combining *how = find_combining(x->dtype);
    const combination *by = &how->by[w->reduce];
    const int64_t elements = tiling_of(node)->block, row = w->r.row, size = eb_element_size(x->dtype), width = last - first;
    sorted_rows s = {.lines = elements / row, .ends = scratch};
    s.rows = s.ends + s.lines + 1;
    void *sums = s.rows + w->r.loop.count;
    int64_t start[EB_LOOP_OPERANDS], done = 0;
    const int is_written = seek_block(w, x, number, start);
    const eb_status status = is_written ? sort_rows(w, node, start, &s, block) : EB_OK;
    if (status != EB_OK) return status;
    const char *values = (const char *)eb_data(eb_input(node, w->values), bases) + first * size;
    const char *from = (const char *)eb_data(x, bases) + (number * elements + first) * size;
    char *to = (char *)eb_data(eb_output(node), bases) + (number * elements + first) * size;
    for (int64_t line = 0; line < s.lines; line++, from += row * size, to += row * size) {
        const int64_t end = is_written ? s.ends[line] : 0;
        if (done == end) {
            if (from != to) copy_row(to, from, width * size);
            continue;
        }
        how->widen(sums, from, width);
        for (; done < end; done++) {
            const int64_t later = s.rows[eb_min(done + AHEAD, w->r.loop.count - 1)];
            for (int64_t i = 0; i < eb_min(width * size, 4 * LINE); i += LINE) __builtin_prefetch(values + later * size + i);
            by->row(sums, values + s.rows[done] * size, width);
        }
        how->narrow(to, sums, width);
    }
    return EB_OK;
}

/* --- the kernel ---------------------------------------------------------------------------------------------------- */

static eb_status put_block(const writing *w, const eb_node *node, void *const *bases, int64_t number, position_block *block) {
    const eb_tensor *x = eb_input(node, X);
    const int64_t elements = tiling_of(node)->block, bytes = elements * eb_element_size(x->dtype);
    const char *from = (const char *)eb_data(x, bases) + number * bytes;
    char *to = (char *)eb_data(eb_output(node), bases) + number * bytes;
    int64_t start[EB_LOOP_OPERANDS];
    if (from != to) memcpy(to, from, (size_t)bytes);
    return seek_block(w, x, number, start) ? write_block(w, node, bases, NULL, to, start, block) : EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch, write_of write) {
    const writing w = write(node);
    const tiling *t = tiling_of(node);
    position_block block;
    find_indices(&block, &w.r, node, bases);
    eb_status status = EB_OK;
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t piece = tile % t->pieces, number = tile / t->pieces * t->each;
        const int64_t first = eb_piece(w.r.row, t->pieces, piece), last = eb_piece(w.r.row, t->pieces, piece + 1);
        for (int64_t i = number; i < eb_min(t->blocks, number + t->each) && status == EB_OK; i++) {
            if (w.reduce == EB_SCATTER_REDUCE_NONE)
                status = put_block(&w, node, bases, i, &block);
            else if (w.r.has_rows)
                status = combine_rows(&w, node, bases, i, first, last, scratch, &block);
            else
                status = combine_elements(&w, node, bases, i, scratch, &block);
        }
    }
    return status;
}

#define WRITE_KERNEL(op)                                                                                              \
    static eb_status plan_##op(eb_node *node) { return plan(node, write_##op); }                                     \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {      \
        return run(n, bases, begin, end, scratch, write_##op);                                                        \
    }                                                                                                                 \
    const eb_kernel any_##op##__generic_rows = {plan_##op, run_##op};
WRITE_KERNEL(scatter)
WRITE_KERNEL(index_put)
