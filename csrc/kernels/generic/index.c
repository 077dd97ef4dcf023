/* Reading at positions: embedding, gather, index_select and index in one form (positions.h), of any dtype. Rows of up to 64
 * bytes are copied without a call, and the rows of later positions are prefetched: each is elsewhere. */
#include "../../engine.h"
#include "../../iterate.h"
#include "../../ops.h"
#include "positions.h"

enum {
    TILE_BYTES = 1 << 16,
    ELEMENT_BYTES = 8, /* what an element alone counts for: its index */
    SHORT_RUN = 32,    /* positions; several runs of fewer share a block of offsets */
};

static indexing read_axes(const eb_node *node, int64_t axes, int wraps) {
    return index_axes(node, EB_IN_READ_INDEX, axes, eb_output(node), eb_input(node, EB_IN_READ_X), 0, wraps);
}
static indexing read_embedding(const eb_node *node) { return read_axes(node, 1, 0); }
static indexing read_index_select(const eb_node *node) {
    return read_axes(node, (int64_t)1 << node->ints[EB_INT_INDEX_SELECT_AXIS], 0);
}
static indexing read_index(const eb_node *node) { return read_axes(node, node->ints[EB_INT_INDEX_AXES], 1); }
static indexing read_gather(const eb_node *node) {
    const int axis = (int)node->ints[EB_INT_GATHER_AXIS];
    return index_along(node, EB_IN_READ_INDEX, axis, eb_output(node), eb_input(node, EB_IN_READ_X), 0);
}

typedef indexing (*read_of)(const eb_node *node);

typedef struct {
    int64_t positions; /* of a tile */
    int64_t pieces;    /* tiles that a row longer than a tile is cut into */
} tiling;
EB_NODE_PLAN(tiling)

static eb_status plan(eb_node *node, read_of read) {
    if (eb_input(node, EB_IN_READ_X)->is_packed || !has_known_indices(node, EB_IN_READ_INDEX, node->n_inputs))
        return EB_NOT_APPLICABLE;
    indexing r = read(node);
    split_rows(&r, 0);
    if (r.loop.count == 0) return EB_OK;
    const int64_t size = eb_element_size(eb_input(node, EB_IN_READ_X)->dtype);
    const int64_t bytes = r.row * size + (r.has_rows ? 0 : ELEMENT_BYTES);
    edit_tiling(node)->positions = eb_max(1, TILE_BYTES / bytes);
    edit_tiling(node)->pieces = eb_min(eb_ceil_div(bytes, TILE_BYTES), r.row);
    node->tiles = eb_ceil_div(r.loop.count, tiling_of(node)->positions) * tiling_of(node)->pieces;
    return EB_OK;
}

static void copy_rows(const run_of_positions *m, const int64_t *offsets, int64_t count, int64_t size, int64_t bytes) {
    for (int64_t k = 0; k < count; k++) {
        const int64_t later = eb_min(k + AHEAD, count - 1);
        for (int64_t i = 0; i < eb_min(bytes, 4 * LINE); i += LINE)
            __builtin_prefetch(m->from + (offsets[later] + later * m->from_step) * size + i);
        copy_row(m->to + k * m->to_step * size, m->from + (offsets[k] + k * m->from_step) * size, bytes);
    }
}

#define ANY INT64_MAX /* the limit of offsets, which are checked */

/* The elements at positions, `step` elements apart, which are read and checked in the same pass. Returns 0 if one is outside
 * of `size`. Not inlined: in `run`, variables do not stay in registers (columns of 1024 x 1024: 454 us instead of 302). */
#define TAKE_ELEMENTS(bits)                                                                                            \
    static __attribute__((noinline)) int take_elements_##bits(const run_of_positions *m, const int64_t *index,         \
                                                              int64_t count, int64_t size, int64_t step) {             \
        uint##bits##_t *to = (uint##bits##_t *)m->to;                                                                  \
        const uint##bits##_t *from = (const uint##bits##_t *)m->from;                                                  \
        const int64_t to_step = m->to_step, from_step = m->from_step;                                                  \
        if (size == ANY && step == 1 && to_step == 1 && from_step == 0) {                                              \
            for (int64_t k = 0; k < count; k++) to[k] = from[index[k]];                                                \
            return 1;                                                                                                  \
        }                                                                                                              \
        for (int64_t k = 0; k < count; k++, from += from_step) {                                                       \
            const int64_t position = index[k];                                                                         \
            if ((uint64_t)position >= (uint64_t)size) return 0;                                                        \
            to[k * to_step] = from[position * step];                                                                   \
        }                                                                                                              \
        return 1;                                                                                                      \
    }
TAKE_ELEMENTS(8)
TAKE_ELEMENTS(16)
TAKE_ELEMENTS(32)
TAKE_ELEMENTS(64)

static int take_elements(const run_of_positions *m, const int64_t *index, int64_t count, int64_t size, int64_t limit,
                         int64_t step) {
    switch (size) {
    case 1: return take_elements_8(m, index, count, limit, step);
    case 2: return take_elements_16(m, index, count, limit, step);
    case 4: return take_elements_32(m, index, count, limit, step);
    default: return take_elements_64(m, index, count, limit, step);
    }
}

/* Prefetch the line of x that the run behind the one at the cursor reads, if that reads as many elements as it has cache
 * lines: the processor does not foresee loads at random. */
static void prefetch_next(const indexing *r, const eb_cursor *at, const char *x, int64_t count, int64_t size) {
    const int64_t bytes = r->size[0] * size;
    if (r->indices != 1 || r->step[0] != 1 || r->loop.stride[INDEXED][r->loop.rank - 1] || bytes > LINE * eb_min(count, 256)) return;
    eb_cursor next = *at;
    eb_cursor_advance(&r->loop, &next, count);
    for (int64_t i = 0; i < bytes; i += LINE) __builtin_prefetch(x + next.offset[INDEXED] * size + i);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, read_of read) {
    indexing r = read(node);
    split_rows(&r, 0);
    const int inner = r.loop.rank - 1;
    const int64_t size = eb_element_size(eb_input(node, EB_IN_READ_X)->dtype), pieces = tiling_of(node)->pieces;
    const char *x = eb_data(eb_input(node, EB_IN_READ_X), bases);
    char *y = eb_data(eb_output(node), bases);
    const int has_short_runs = r.loop.shape[inner] < SHORT_RUN && eb_is_dense(eb_output(node));
    const int has_own = has_own_index(&r, node) && !has_short_runs;
    position_block block;
    find_indices(&block, &r, node, bases);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t first = eb_piece(r.row, pieces, tile % pieces), last = eb_piece(r.row, pieces, tile % pieces + 1);
        int64_t flat = tile / pieces * tiling_of(node)->positions;
        const int64_t flat_end = eb_min(r.loop.count, flat + tiling_of(node)->positions);
        eb_cursor at;
        eb_cursor_seek(&r.loop, &at, flat);
        while (flat < flat_end) {
            int64_t count = eb_min(BLOCK, eb_cursor_run(&r.loop, &at, flat_end - flat));
            run_of_positions m = {y + (at.offset[PLAIN] + first) * size, x + first * size, r.loop.stride[PLAIN][inner], 0};
            if (has_short_runs) {
                count = load_runs(&block, &r, node, &at, flat_end - flat);
                if (!count) return EB_INDEX_OUT_OF_RANGE;
                m.to_step = r.row;
            } else if (has_own) {
                m.from += at.offset[INDEXED] * size, m.from_step = r.loop.stride[INDEXED][inner];
                prefetch_next(&r, &at, x, count, size);
                const int64_t *index = (const int64_t *)block.data[0] + at.offset[INDICES];
                if (!take_elements(&m, index, count, size, r.size[0], r.step[0])) return EB_INDEX_OUT_OF_RANGE;
                eb_cursor_advance(&r.loop, &at, count);
                flat += count;
                continue;
            } else {
                if (!load_positions(&block, &r, node, &at, count)) return EB_INDEX_OUT_OF_RANGE;
                m.from += at.offset[INDEXED] * size, m.from_step = r.loop.stride[INDEXED][inner];
                if (!r.has_rows) prefetch_next(&r, &at, x, count, size);
                eb_cursor_advance(&r.loop, &at, count);
            }
            if (r.has_rows)
                copy_rows(&m, block.offsets, count, size, (last - first) * size);
            else
                take_elements(&m, block.offsets, count, size, ANY, 1);
            flat += count;
        }
    }
    return EB_OK;
}

#define READ_KERNEL(op, variant)                                                                                   \
    static eb_status plan_##op(eb_node *node) { return plan(node, read_##op); }                                    \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run(n, bases, begin, end, read_##op);                                                               \
    }                                                                                                              \
    const eb_kernel any_##op##__generic_##variant = {plan_##op, run_##op};
READ_KERNEL(embedding, rows)
READ_KERNEL(gather, rows)
READ_KERNEL(index_select, rows)
READ_KERNEL(index, rows)
