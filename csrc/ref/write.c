/* Reference of scatter and index_put. Floats accumulate in double and are rounded once; an index outside of its axis
 * stops the run. */
#include "../ops.h"
#include "element.h"
#include "indexed.h"

typedef union {
    double real;
    int64_t whole;
} wide;

static wide load(const eb_tensor *t, const void *data, int64_t at) {
    wide value;
    if (eb_is_real(t->dtype))
        value.real = eb_load_real(t->dtype, data, at);
    else
        value.whole = eb_load_int(t->dtype, data, at);
    return value;
}

static void store(const eb_tensor *t, void *data, int64_t at, wide value) {
    if (eb_is_real(t->dtype))
        eb_store_real(t->dtype, data, at, value.real);
    else
        eb_store_int(t->dtype, data, at, value.whole);
}

/* --- what a write does with the element that is there -------------------------------------------------------------- */

typedef wide (*combination)(wide kept, wide given);

static wide put(wide kept, wide given) {
    (void)kept;
    return given;
}
static wide sum_real(wide kept, wide given) { return (wide){.real = kept.real + given.real}; }
static wide sum_whole(wide kept, wide given) {
    return (wide){.whole = (int64_t)((uint64_t)kept.whole + (uint64_t)given.whole)};
}
static wide prod_real(wide kept, wide given) { return (wide){.real = kept.real * given.real}; }
static wide prod_whole(wide kept, wide given) {
    return (wide){.whole = (int64_t)((uint64_t)kept.whole * (uint64_t)given.whole)};
}
static wide amax_real(wide kept, wide given) { return isnan(kept.real) || kept.real > given.real ? kept : given; }
static wide amax_whole(wide kept, wide given) { return kept.whole > given.whole ? kept : given; }
static wide amin_real(wide kept, wide given) { return isnan(kept.real) || kept.real < given.real ? kept : given; }
static wide amin_whole(wide kept, wide given) { return kept.whole < given.whole ? kept : given; }

static const combination combinations[][2] = {
    [EB_SCATTER_REDUCE_NONE] = {put, put},
    [EB_SCATTER_REDUCE_SUM] = {sum_whole, sum_real},
    [EB_SCATTER_REDUCE_PROD] = {prod_whole, prod_real},
    [EB_SCATTER_REDUCE_AMAX] = {amax_whole, amax_real},
    [EB_SCATTER_REDUCE_AMIN] = {amin_whole, amin_real},
};

/* --- scatter: a line of x along the axis is widened, written to and stored; lines are independent ------------------ */

static eb_status plan_scatter(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_SCATTER_X), *index = eb_input(node, EB_IN_SCATTER_INDEX);
    int axis = (int)node->ints[EB_INT_SCATTER_AXIS];
    node->tiles = eb_tile_count(eb_lines(x, axis), x->shape[axis] + index->shape[axis]);
    node->scratch_bytes = eb_max(x->shape[axis], 1) * (int64_t)sizeof(wide);
    return EB_OK;
}

/* Write the source's elements of the line that starts at `at` into `line`. */
static eb_status scatter_line(const eb_node *node, void *const *bases, const int64_t *at, wide *line) {
    const eb_tensor *x = eb_input(node, EB_IN_SCATTER_X), *index = eb_input(node, EB_IN_SCATTER_INDEX);
    const eb_tensor *source = eb_input(node, EB_IN_SCATTER_SOURCE);
    int axis = (int)node->ints[EB_INT_SCATTER_AXIS];
    combination combine = combinations[node->ints[EB_INT_SCATTER_REDUCE]][eb_is_real(x->dtype)];
    for (int a = 0; a < index->rank; a++)
        if (at[a] >= index->shape[a]) return EB_OK; /* an index may be smaller than x */
    int64_t first = eb_offset_at(index, at), from = eb_offset_at(source, at);
    for (int64_t i = 0; i < index->shape[axis]; i++) {
        int64_t position = eb_load_int(index->dtype, eb_data(index, bases), first + i * index->stride[axis]);
        if (position < 0 || position >= x->shape[axis]) return EB_INDEX_OUT_OF_RANGE;
        wide given = load(source, eb_data(source, bases), from + i * source->stride[axis]);
        line[position] = combine(line[position], given);
    }
    return EB_OK;
}

static eb_status run_scatter(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *x = eb_input(node, EB_IN_SCATTER_X), *y = eb_output(node);
    int axis = (int)node->ints[EB_INT_SCATTER_AXIS];
    int64_t size = x->shape[axis], lines = eb_lines(x, axis);
    wide *line = scratch;
    for (int64_t i = eb_piece(lines, node->tiles, begin); i < eb_piece(lines, node->tiles, end); i++) {
        int64_t at[EB_MAX_RANK];
        eb_line_start(x, axis, i, at);
        int64_t from = eb_offset_at(x, at), to = eb_offset_at(y, at);
        for (int64_t j = 0; j < size; j++) line[j] = load(x, eb_data(x, bases), from + j * x->stride[axis]);
        eb_status status = scatter_line(node, bases, at, line);
        if (status != EB_OK) return status;
        for (int64_t j = 0; j < size; j++) store(y, eb_data(y, bases), to + j * y->stride[axis], line[j]);
    }
    return EB_OK;
}
const eb_kernel any_scatter__generic_reference = {plan_scatter, run_scatter};

/* --- index_put: any element may be written several times, so it is one tile ---------------------------------------- */

/* Elements that are written, those written twice counted twice: no operand need have as many. */
static int64_t count_written(const eb_indexed *indexed) {
    return eb_multiply_all(indexed->shape, indexed->rank);
}

static eb_status plan_index_put(eb_node *node) {
    const eb_indexed indexed = eb_indexed_axes(node, EB_IN_INDEX_PUT_INDICES, node->ints[EB_INT_INDEX_PUT_AXES]);
    if (count_written(&indexed) >= EB_MOST_BYTES) return EB_NOT_APPLICABLE;
    node->tiles = 1;
    if (node->ints[EB_INT_INDEX_PUT_ACCUMULATE])
        node->scratch_bytes = eb_max(eb_size(eb_input(node, EB_IN_INDEX_PUT_X)), 1) * (int64_t)sizeof(wide);
    return EB_OK;
}

/* Put the values into `data`, which lies as `target` says and holds elements of the output, or (`sums`) wide ones. */
static eb_status put_values(const eb_node *node, void *const *bases, const eb_tensor *target, void *data, wide *sums) {
    const eb_tensor *values = eb_input(node, EB_IN_INDEX_PUT_VALUES);
    eb_indexed indexed = eb_indexed_axes(node, EB_IN_INDEX_PUT_INDICES, node->ints[EB_INT_INDEX_PUT_AXES]);
    combination add = eb_is_real(target->dtype) ? sum_real : sum_whole;
    int64_t count = count_written(&indexed), out[2 * EB_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t from = 0, to = eb_indexed_offset(&indexed, node, bases, target, out);
        if (to < 0) return EB_INDEX_OUT_OF_RANGE;
        for (int axis = 0; axis < indexed.rank; axis++)
            from += out[axis] * eb_broadcast_stride(values, indexed.rank, axis);
        wide given = load(values, eb_data(values, bases), from);
        if (sums)
            sums[to] = add(sums[to], given);
        else
            store(target, data, to, given);
        for (int axis = indexed.rank - 1; axis >= 0 && ++out[axis] == indexed.shape[axis]; axis--) out[axis] = 0;
    }
    return EB_OK;
}

static eb_status run_index_put(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)begin, (void)end;
    const eb_tensor *x = eb_input(node, EB_IN_INDEX_PUT_X), *y = eb_output(node);
    const void *x_data = eb_data(x, bases);
    void *y_data = eb_data(y, bases);
    eb_loop from = eb_loop_axes(x, 0, x->rank), to = eb_loop_axes(y, 0, y->rank);
    int64_t size = eb_size(x);
    if (!node->ints[EB_INT_INDEX_PUT_ACCUMULATE]) {
        for (int64_t i = 0; i < size && x_data != y_data; i++)
            store(y, y_data, eb_loop_offset(&to, i), load(x, x_data, eb_loop_offset(&from, i)));
        return put_values(node, bases, y, y_data, NULL);
    }
    wide *sums = scratch;
    eb_tensor dense = *y;
    for (int64_t axis = dense.rank - 1, step = 1; axis >= 0; step *= dense.shape[axis--]) dense.stride[axis] = step;
    for (int64_t i = 0; i < size; i++) sums[i] = load(x, x_data, eb_loop_offset(&from, i));
    eb_status status = put_values(node, bases, &dense, NULL, sums);
    for (int64_t i = 0; i < size && status == EB_OK; i++) store(y, y_data, eb_loop_offset(&to, i), sums[i]);
    return status;
}
const eb_kernel any_index_put__generic_reference = {plan_index_put, run_index_put};
