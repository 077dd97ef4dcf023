/* Elements at positions given by integers, for the kernels that read them (index.c) and write them (write.c).
 *
 * An element of the indexed tensor lies at the sum of two offsets: one along the axes that are kept, and for each axis that
 * is indexed a position times its stride. So each op is a loop over the axes of the index and those kept, with the indexed
 * tensor, the plain one (the result, or the values) and the indices as operands, each with stride 0 where an axis does not
 * move it. Where no index moves along the innermost axis, a whole row of it is moved for each position.
 *
 * Positions are checked and turned into offsets a block at a time, which leaves loops that depend on the size of an element
 * alone. */
#ifndef EB_POSITIONS_H
#define EB_POSITIONS_H

#include <string.h>

#include "../../ref/indexed.h"

enum {
    PLAIN = 0,
    INDEXED = 1,
    INDICES = 2, /* operands of the loop; one an index */
    MOST_INDICES = EB_LOOP_OPERANDS - INDICES,
    BLOCK = 1024, /* positions */
    AHEAD = 8,    /* rows that are prefetched */
    LINE = 64     /* bytes, of a cache */
};

typedef struct {
    eb_loop loop;    /* over positions: without the axis of a row */
    int64_t row;     /* elements that a position moves */
    int has_rows;    /* they lie in one piece on both sides */
    int first_input; /* of the node: the first index */
    int indices;
    int64_t size[MOST_INDICES], step[MOST_INDICES]; /* of the axis that each index is for */
    int wraps;                                      /* negative positions count from the end */
} indexing;

/* Where the elements of one run of positions lie. */
typedef struct {
    char *to;
    const char *from;
    int64_t to_step, from_step; /* elements from one position to the next */
} run_of_positions;

/* Whether inputs [first, last) can be indices. */
static inline int has_known_indices(const eb_node *node, int first, int last) {
    if (last - first > MOST_INDICES) return 0;
    for (int i = first; i < last; i++)
        if (eb_input(node, i)->dtype != EB_I64 && eb_input(node, i)->dtype != EB_I32) return 0;
    return 1;
}

/* Leave the innermost axis to each position, where no index moves along it. `is_line`: only if every row is also one of the
 * lines of the same size that the indexed tensor, a dense one, is cut into. */
static inline void split_rows(indexing *r, int is_line) {
    const int inner = r->loop.rank - 1;
    const int64_t row = r->loop.shape[inner];
    r->row = 1, r->has_rows = 0;
    if (r->loop.stride[PLAIN][inner] != 1 || r->loop.stride[INDEXED][inner] != 1 || !r->loop.count) return;
    for (int i = 0; i < r->indices; i++)
        if (r->loop.stride[INDICES + i][inner] || (is_line && r->step[i] % row)) return;
    for (int axis = 0; axis < inner; axis++)
        if (is_line && r->loop.stride[INDEXED][axis] % row) return;
    r->row = row, r->has_rows = 1;
    r->loop.count /= row;
    r->loop.rank = inner ? inner : 1;
    if (inner) return;
    r->loop.shape[0] = 1;
    for (int o = 0; o < r->loop.operands; o++) r->loop.stride[o][0] = 0;
}

/* Axes of the indices' common block replace `axes`, a bit mask. `lead` axes of the result, before the block, are left out. */
static inline indexing index_axes(const eb_node *node, int first_input, int64_t axes, const eb_tensor *plain,
                                  const eb_tensor *indexed, int lead, int wraps) {
    const eb_indexed all = eb_indexed_axes(node, first_input, axes);
    indexing r = {.first_input = first_input, .wraps = wraps};
    int kept_axes[EB_MAX_RANK], kept = 0;
    for (int axis = 0; axis < indexed->rank; axis++) {
        if (!(axes >> axis & 1)) {
            kept_axes[kept++] = axis;
            continue;
        }
        r.size[r.indices] = indexed->shape[axis];
        r.step[r.indices++] = indexed->stride[axis];
    }
    r.loop = eb_loop_new(INDICES + r.indices);
    for (int axis = lead; axis < all.rank; axis++) {
        int64_t strides[EB_LOOP_OPERANDS] = {eb_broadcast_stride(plain, all.rank, axis)};
        const int in_block = axis >= all.front && axis < all.front + all.block;
        if (!in_block) strides[INDEXED] = indexed->stride[kept_axes[axis < all.front ? axis : axis - all.block]];
        for (int i = 0; i < r.indices && in_block; i++)
            strides[INDICES + i] = eb_broadcast_stride(eb_input(node, first_input + i), all.block, axis - all.front);
        eb_loop_axis(&r.loop, all.shape[axis], strides);
    }
    return r;
}

/* The index has the rank of x and moves along every axis; its positions are for `chosen`. `lead` axes are left out. */
static inline indexing index_along(const eb_node *node, int first_input, int chosen, const eb_tensor *plain,
                                   const eb_tensor *indexed, int lead) {
    const eb_tensor *index = eb_input(node, first_input);
    indexing r = {.first_input = first_input, .indices = 1};
    r.size[0] = indexed->shape[chosen], r.step[0] = indexed->stride[chosen];
    r.loop = eb_loop_new(INDICES + 1);
    for (int axis = lead; axis < index->rank; axis++) {
        const int64_t strides[] = {plain->stride[axis], axis == chosen ? 0 : indexed->stride[axis], index->stride[axis]};
        eb_loop_axis(&r.loop, index->shape[axis], strides);
    }
    return r;
}

/* --- positions of a block ------------------------------------------------------------------------------------------- */

/* Add positions times `step` to the offsets, which are 0 where `is_first`. */
#define ADD_POSITIONS(name, type)                                                                                      \
    static inline int add_##name(const type *index, int64_t stride, int64_t count, int64_t size, int64_t wrap,         \
                                 int64_t step, int is_first, int64_t *offsets) {                                       \
        for (int64_t k = 0; k < count; k++) {                                                                          \
            int64_t position = index[k * stride];                                                                      \
            if (position < 0) position += wrap;                                                                        \
            if ((uint64_t)position >= (uint64_t)size) return 0;                                                        \
            offsets[k] = (is_first ? 0 : offsets[k]) + position * step;                                                \
        }                                                                                                              \
        return 1;                                                                                                      \
    }
ADD_POSITIONS(long_positions, int64_t)
ADD_POSITIONS(word_positions, int32_t)
#undef ADD_POSITIONS

typedef struct {
    const void *data[MOST_INDICES]; /* of the indices */
    int64_t known;                  /* positions whose offsets stand below, and where their indices begin */
    int64_t first[MOST_INDICES];
    int64_t offsets[BLOCK];
} position_block;

static inline void find_indices(position_block *p, const indexing *r, const eb_node *node, void *const *bases) {
    p->known = 0;
    for (int i = 0; i < r->indices; i++) p->data[i] = eb_data(eb_input(node, r->first_input + i), bases);
}

/* Add the offsets that the indices of `count` positions of one run of the loop lead to, from the cursor on, to `offsets`, or
 * (`sets`) store them there. Returns 0 if one is outside of its axis. */
static inline int add_positions(const position_block *p, const indexing *r, const eb_node *node, const eb_cursor *at,
                                int64_t count, int sets, int64_t *offsets) {
    const int inner = r->loop.rank - 1;
    int is_inside = 1;
    for (int i = 0; is_inside && i < r->indices; i++) {
        const int64_t first = at->offset[INDICES + i], stride = r->loop.stride[INDICES + i][inner], size = r->size[i];
        const int64_t wrap = r->wraps ? size : 0, step = r->step[i];
        const int64_t *as_long = (const int64_t *)p->data[i] + first;
        const int32_t *as_word = (const int32_t *)p->data[i] + first;
        if (eb_input(node, r->first_input + i)->dtype == EB_I32)
            is_inside = add_word_positions(as_word, stride, count, size, wrap, step, sets && i == 0, offsets);
        else if (sets && i == 0)
            is_inside = add_long_positions(as_long, stride, count, size, wrap, step, 1, offsets);
        else
            is_inside = add_long_positions(as_long, stride, count, size, wrap, step, 0, offsets);
    }
    return is_inside;
}

/* The same for `count` <= BLOCK positions, in p->offsets. Where indices are shared by an axis outside of the run, they are read
 * once. */
static inline int load_positions(position_block *p, const indexing *r, const eb_node *node, const eb_cursor *at, int64_t count) {
    int is_known = count <= p->known;
    for (int i = 0; i < r->indices; i++) is_known &= p->first[i] == at->offset[INDICES + i];
    if (is_known) return 1;
    for (int i = 0; i < r->indices; i++) p->first[i] = at->offset[INDICES + i];
    p->known = count;
    return add_positions(p, r, node, at, count, 1, p->offsets);
}

/* Offsets of the positions of several whole runs, from the cursor on, at most `limit` and BLOCK; the cursor moves behind
 * them. They contain the kept axes, too. Returns the number of positions, or 0 if one is outside of its axis. */
static inline int64_t load_runs(position_block *p, const indexing *r, const eb_node *node, eb_cursor *at, int64_t limit) {
    const int64_t step = r->loop.stride[INDEXED][r->loop.rank - 1];
    int64_t loaded = 0;
    p->known = 0;
    for (;;) {
        const int64_t count = eb_cursor_run(&r->loop, at, limit - loaded);
        if (count == 0 || loaded + count > BLOCK) return loaded;
        for (int64_t k = 0; k < count; k++) p->offsets[loaded + k] = at->offset[INDEXED] + k * step;
        if (!add_positions(p, r, node, at, count, 0, p->offsets + loaded)) return 0;
        eb_cursor_advance(&r->loop, at, count);
        loaded += count;
    }
}

/* Whether each run has positions of its own, in an index of 64 bits: elements are then moved as their positions are read and
 * checked, without a block of offsets. */
static inline int has_own_index(const indexing *r, const eb_node *node) {
    const int inner = r->loop.rank - 1;
    if (r->indices != 1 || r->has_rows || r->wraps || eb_input(node, r->first_input)->dtype != EB_I64) return 0;
    for (int axis = 0; axis < inner; axis++)
        if (!r->loop.stride[INDICES][axis]) return 0;
    return r->loop.stride[INDICES][inner] == 1;
}

/* A copy of few bytes without a call; both ends of a longer piece may overlap in the middle. */
static inline void copy_row(char *to, const char *from, int64_t bytes) {
    if (bytes > 64)
        memcpy(to, from, (size_t)bytes);
    else if (bytes >= 16) {
        for (int64_t i = 0; i + 16 < bytes; i += 16) memcpy(to + i, from + i, 16);
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes >= 8) {
        memcpy(to, from, 8);
        memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(to, from, 4);
        memcpy(to + bytes - 4, from + bytes - 4, 4);
    } else
        for (int64_t i = 0; i < bytes; i++) to[i] = from[i];
}

#endif
