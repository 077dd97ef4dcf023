/* scatter without a reduction: elements are moved, not computed. In place (a cache that takes a token), only written
 * elements are touched; otherwise x is copied first.
 *
 * x is divided into blocks, one for each position of the axes before the scattered one. Blocks are independent, and a
 * tile has several. Inside of a block, positions are written in the order of the index: one may be written twice, and
 * the last one counts. If all elements behind the axis share an index (as `expand` makes it), they move as one row. */
#include <string.h>

#include "../../checked.h"
#include "../../ops.h"
#include "../../ref/element.h"

enum { X = EB_IN_SCATTER_X, INDEX = EB_IN_SCATTER_INDEX, SOURCE = EB_IN_SCATTER_SOURCE };
enum { TILE_BYTES = 1 << 16 };

/* What it takes to write one block of the output. */
typedef struct {
    const eb_tensor *x, *index, *source;
    const void *indices; /* all of them, not those of the block alone */
    const char *given;   /* the elements of the source, all of them */
    char *target;        /* the block in the output */
    int64_t first, from; /* elements of index and source at which the block begins */
    int64_t behind;      /* elements behind the axis */
    int64_t size;        /* bytes of an element */
    int axis, has_rows;  /* `has_rows`: whether one index moves all elements behind the axis */
} block;

typedef struct {
    int64_t blocks; /* of a tile */
} tiling;
EB_NODE_PLAN(tiling)

static int64_t count_blocks(const eb_tensor *x, int axis) { return eb_multiply_all(x->shape, axis); }

static int64_t count_behind(const eb_tensor *x, int axis) {
    return eb_multiply_all(x->shape + axis + 1, x->rank - axis - 1);
}

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, X);
    const int axis = (int)node->ints[EB_INT_SCATTER_AXIS];
    if (node->ints[EB_INT_SCATTER_REDUCE] != EB_SCATTER_REDUCE_NONE) return EB_NOT_APPLICABLE;
    if (x->rank == 0 || !eb_is_dense(eb_output(node))) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x)) return EB_NEEDS_DENSE;
    /* Bytes of a block if x must be copied, which a plan does not know. */
    int64_t lines = x->shape[axis] + eb_input(node, INDEX)->shape[axis];
    int64_t bytes = lines * count_behind(x, axis) * eb_element_size(x->dtype);
    edit_tiling(node)->blocks = eb_max(1, TILE_BYTES / eb_max(1, bytes));
    node->tiles = eb_ceil_div(count_blocks(x, axis), tiling_of(node)->blocks);
    return EB_OK;
}

/* Whether all elements behind the axis, two or more, share one index and are contiguous in the source. */
static int find_rows(const block *b) {
    int64_t step = 1;
    for (int a = b->x->rank - 1; a > b->axis; a--) {
        const int64_t size = b->x->shape[a];
        if (b->index->shape[a] != size || (size > 1 && (b->index->stride[a] || b->source->stride[a] != step))) return 0;
        step *= size;
    }
    return step > 1;
}

/* The position that an element of the index holds; below 0 if it is outside of the axis. */
static inline int64_t position_at(const block *b, int64_t at) {
    int64_t position = eb_load_int(b->index->dtype, b->indices, at);
    return position < b->x->shape[b->axis] ? position : -1;
}

static eb_status put_rows(const block *b) {
    const int64_t row = b->behind * b->size;
    for (int64_t i = 0; i < b->index->shape[b->axis]; i++) {
        int64_t position = position_at(b, b->first + i * b->index->stride[b->axis]);
        if (position < 0) return EB_INDEX_OUT_OF_RANGE;
        memcpy(b->target + position * row, b->given + (b->from + i * b->source->stride[b->axis]) * b->size, (size_t)row);
    }
    return EB_OK;
}

/* Put a line along the last axis. It begins at element `first` of the index and `from` of the source. Position 0 is
 * element `to` of the block. */
static inline eb_status put_line(const block *b, int64_t first, int64_t from, int64_t to, int64_t size) {
    const int last = b->x->rank - 1;
    const int64_t step = b->axis == last ? 0 : 1; /* along the axis itself, the positions alone say where */
    for (int64_t i = 0; i < b->index->shape[last]; i++) {
        int64_t position = position_at(b, first + i * b->index->stride[last]);
        if (position < 0) return EB_INDEX_OUT_OF_RANGE;
        memcpy(b->target + (to + position * b->behind + i * step) * size,
               b->given + (from + i * b->source->stride[last]) * size, (size_t)size);
    }
    return EB_OK;
}

static inline eb_status put_elements(const block *b, int64_t size) {
    const int last = b->x->rank - 1;
    int64_t at[EB_MAX_RANK] = {0}, lines = 1;
    for (int a = b->axis; a < last; a++) lines *= b->index->shape[a];
    for (int64_t line = 0; line < lines; line++) {
        int64_t first = b->first, from = b->from, to = 0, step = 1;
        for (int a = last; a > b->axis; step *= b->x->shape[a--]) to += at[a] * step;
        for (int a = b->axis; a < last; a++) first += at[a] * b->index->stride[a], from += at[a] * b->source->stride[a];
        eb_status status = put_line(b, first, from, to, size);
        if (status != EB_OK) return status;
        for (int a = last - 1; a >= b->axis && ++at[a] == b->index->shape[a]; a--) at[a] = 0;
    }
    return EB_OK;
}

static eb_status put(const block *b) {
    if (b->has_rows) return put_rows(b);
    switch (b->size) { /* as constants, so that an element is one load and one store */
    case 1: return put_elements(b, 1);
    case 2: return put_elements(b, 2);
    case 4: return put_elements(b, 4);
    default: return put_elements(b, 8);
    }
}

/* Move to block `number`. Returns 0 if the index, which may be smaller than x, has no part for it. */
static int seek(block *b, int64_t number) {
    b->first = b->from = 0;
    for (int a = b->axis - 1; a >= 0; number /= b->x->shape[a--]) {
        const int64_t at = number % b->x->shape[a];
        if (at >= b->index->shape[a]) return 0;
        b->first += at * b->index->stride[a], b->from += at * b->source->stride[a];
    }
    return 1;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const int axis = (int)node->ints[EB_INT_SCATTER_AXIS];
    block b = {.x = eb_input(node, X), .index = eb_input(node, INDEX), .source = eb_input(node, SOURCE), .axis = axis};
    b.indices = eb_data(b.index, bases), b.given = eb_data(b.source, bases);
    b.behind = count_behind(b.x, axis), b.size = eb_element_size(b.x->dtype);
    b.has_rows = find_rows(&b);
    const int64_t each = tiling_of(node)->blocks, bytes = b.x->shape[axis] * b.behind * b.size;
    const int is_written = eb_size(b.index) > 0;
    const char *x = eb_data(b.x, bases);
    char *y = eb_data(eb_output(node), bases);
    for (int64_t i = begin * each; i < eb_min(count_blocks(b.x, axis), end * each); i++) {
        b.target = y + i * bytes;
        if (x != y) memcpy(b.target, x + i * bytes, (size_t)bytes);
        eb_status status = is_written && seek(&b, i) ? put(&b) : EB_OK;
        if (status != EB_OK) return status;
    }
    return EB_OK;
}
const eb_kernel any_scatter__generic_rows = {plan, run};
