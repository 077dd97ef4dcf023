/* Reading at positions: embedding, gather, index_select and index in one form, of any dtype.
 *
 * An element of the result lies at the sum of two offsets of x: one along the axes that are kept, and for each axis that is
 * indexed a position times its stride. So each op is a loop over the result's axes with the result, x and the indices as
 * operands, each with stride 0 where an axis does not move it. Where no index moves along the innermost axis, a whole run
 * of it is copied for each position; else positions go element by element, but without a division by any size. */
#include <string.h>

#include "../../engine.h"
#include "../../iterate.h"
#include "../../ops.h"

enum {
    TILE_BYTES = 1 << 16,
    ELEMENT_BYTES = 8, /* what an element alone counts for: its index */
    Y = 0,
    X = 1,
    INDICES = 2, /* operands of the loop; one an index */
    MOST_INDICES = EB_LOOP_OPERANDS - INDICES
};

typedef struct {
    eb_loop loop;
    int indices;
    int64_t size[MOST_INDICES], step[MOST_INDICES]; /* of the axis that each index is for */
    int wraps;                                      /* negative positions count from the end */
} reading;

/* `axes`: those of x that are indexed, as a bit mask. The result's axes are the kept ones in their order, with the common
 * shape of the indices (`block` axes) before kept axis number `front`. */
static reading read_block(const eb_node *node, int64_t axes, int block, int front, int wraps) {
    const eb_tensor *x = eb_input(node, EB_IN_READ_X), *y = eb_output(node);
    reading r = {.loop = eb_loop_new(INDICES + node->n_inputs - EB_IN_READ_INDEX), .indices = 0, .wraps = wraps};
    int kept_axes[EB_MAX_RANK], kept = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        if (!(axes >> axis & 1)) {
            kept_axes[kept++] = axis;
            continue;
        }
        r.size[r.indices] = x->shape[axis];
        r.step[r.indices++] = x->stride[axis];
    }
    for (int axis = 0; axis < y->rank; axis++) {
        int64_t strides[EB_LOOP_OPERANDS] = {y->stride[axis]};
        int in_block = axis >= front && axis < front + block;
        if (!in_block) strides[X] = x->stride[kept_axes[axis < front ? axis : axis - block]];
        for (int i = 0; i < r.indices && in_block; i++)
            strides[INDICES + i] = eb_broadcast_stride(eb_input(node, EB_IN_READ_INDEX + i), block, axis - front);
        eb_loop_axis(&r.loop, y->shape[axis], strides);
    }
    return r;
}

static reading read_embedding(const eb_node *node) {
    return read_block(node, 1, eb_input(node, EB_IN_EMBEDDING_IDS)->rank, 0, 0);
}

static reading read_index_select(const eb_node *node) {
    int axis = (int)node->ints[EB_INT_INDEX_SELECT_AXIS];
    return read_block(node, (int64_t)1 << axis, 1, axis, 0);
}

static reading read_index(const eb_node *node) {
    int64_t axes = node->ints[EB_INT_INDEX_AXES];
    int indices = node->n_inputs - EB_IN_INDEX_INDICES, first = __builtin_ctzll((uint64_t)axes);
    int is_adjacent = axes >> first == ((int64_t)1 << indices) - 1;
    int block = eb_output(node)->rank - (eb_input(node, EB_IN_INDEX_X)->rank - indices);
    return read_block(node, axes, block, is_adjacent ? first : 0, 1);
}

/* The index has the result's shape and moves along every axis. */
static reading read_gather(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_GATHER_X), *index = eb_input(node, EB_IN_GATHER_INDEX);
    const eb_tensor *y = eb_output(node);
    int chosen = (int)node->ints[EB_INT_GATHER_AXIS];
    reading r = {.loop = eb_loop_new(INDICES + 1), .indices = 1, .size = {x->shape[chosen]}, .step = {x->stride[chosen]}};
    for (int axis = 0; axis < y->rank; axis++) {
        int64_t strides[EB_LOOP_OPERANDS] = {y->stride[axis], axis == chosen ? 0 : x->stride[axis], index->stride[axis]};
        eb_loop_axis(&r.loop, y->shape[axis], strides);
    }
    return r;
}

/* Whether a position serves a whole run of the innermost axis. */
static int has_rows(const reading *r) {
    int inner = r->loop.rank - 1;
    for (int i = 0; i < r->indices; i++)
        if (r->loop.stride[INDICES + i][inner]) return 0;
    return r->loop.stride[X][inner] == 1 && r->loop.stride[Y][inner] == 1;
}

typedef reading (*read_of)(const eb_node *node);

typedef struct {
    int64_t elements; /* elements a tile: whole rows, unless a row is longer */
} tiling;
EB_NODE_PLAN(tiling)
static eb_status plan(eb_node *node, read_of read) {
    if (eb_input(node, EB_IN_READ_X)->is_packed || node->n_inputs > EB_IN_READ_INDEX + MOST_INDICES) return EB_NOT_APPLICABLE;
    for (int i = EB_IN_READ_INDEX; i < node->n_inputs; i++)
        if (eb_input(node, i)->dtype != EB_I64 && eb_input(node, i)->dtype != EB_I32) return EB_NOT_APPLICABLE;
    reading r = read(node);
    if (r.loop.count == 0) return EB_OK;
    int rows = has_rows(&r);
    int64_t row = rows ? r.loop.shape[r.loop.rank - 1] : 1, size = eb_element_size(eb_input(node, EB_IN_READ_X)->dtype);
    int64_t elements = TILE_BYTES / (rows ? size : size + ELEMENT_BYTES);
    edit_tiling(node)->elements = elements < row ? elements : elements / row * row;
    node->tiles = eb_ceil_div(r.loop.count, tiling_of(node)->elements);
    return EB_OK;
}

/* Where in x the positions at `offset` lead; -1 where one is outside of its axis. */
static inline int64_t positions_at(const eb_node *node, const reading *r, void *const *indices, const int64_t *offset,
                                   int64_t kept) {
    for (int i = 0; i < r->indices; i++) {
        int64_t at = offset[INDICES + i], position;
        const int is_long = eb_input(node, EB_IN_READ_INDEX + i)->dtype == EB_I64;
        position = is_long ? ((const int64_t *)indices[i])[at] : ((const int32_t *)indices[i])[at];
        if (r->wraps && position < 0) position += r->size[i];
        if (position < 0 || position >= r->size[i]) return -1;
        kept += position * r->step[i];
    }
    return kept;
}

static inline void move_one(char *y, const char *x, int64_t size) {
    switch (size) {
    case 1: *y = *x; break;
    case 2: memcpy(y, x, 2); break;
    case 4: memcpy(y, x, 4); break;
    default: memcpy(y, x, 8);
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, read_of read) {
    reading r = read(node);
    int rows = has_rows(&r), inner = r.loop.rank - 1;
    int64_t size = eb_element_size(eb_input(node, EB_IN_READ_X)->dtype), each = tiling_of(node)->elements;
    const char *x = eb_data(eb_input(node, EB_IN_READ_X), bases);
    char *y = eb_data(eb_output(node), bases);
    void *indices[MOST_INDICES] = {0};
    for (int i = 0; i < r.indices; i++) indices[i] = eb_data(eb_input(node, EB_IN_READ_INDEX + i), bases);
    int64_t flat = begin * each, flat_end = eb_min(r.loop.count, end * each);
    eb_cursor at;
    eb_cursor_seek(&r.loop, &at, flat);
    while (flat < flat_end) {
        int64_t run = eb_cursor_run(&r.loop, &at, flat_end - flat), offset[EB_LOOP_OPERANDS];
        memcpy(offset, at.offset, sizeof offset);
        for (int64_t i = 0; i < (rows ? 1 : run); i++) {
            int64_t from = positions_at(node, &r, indices, offset, 0);
            if (from < 0) return EB_INDEX_OUT_OF_RANGE;
            if (rows)
                memcpy(y + offset[Y] * size, x + (from + offset[X]) * size, (size_t)(run * size));
            else
                move_one(y + offset[Y] * size, x + (from + offset[X]) * size, size);
            for (int o = 0; o < r.loop.operands; o++) offset[o] += r.loop.stride[o][inner];
        }
        eb_cursor_advance(&r.loop, &at, run);
        flat += run;
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
