/* Reference of copy, concat and flip: element by element between any strides. */
#include "../ops.h"
#include "element.h"

/* The source's elements in row-major order, beside where they go. An output of another shape than the source (a
 * reshape) is dense: it takes the elements in order. */
static eb_status copy_loop(const eb_node *node, eb_loop *loop) {
    const eb_tensor *x = eb_input(node, EB_IN_COPY_X), *y = eb_output(node);
    int same = x->rank == y->rank && memcmp(x->shape, y->shape, sizeof(int64_t) * (size_t)x->rank) == 0;
    if (x->dtype != y->dtype || (!same && (eb_size(x) != eb_size(y) || !eb_is_dense(y)))) return EB_NOT_APPLICABLE;
    *loop = eb_loop_new(2);
    int64_t step = eb_size(x);
    for (int axis = 0; axis < x->rank && step; axis++) {
        step /= x->shape[axis];
        int64_t strides[2] = {x->stride[axis], same ? y->stride[axis] : step};
        eb_loop_axis(loop, x->shape[axis], strides);
    }
    if (eb_size(x) == 0) loop->count = 0;
    return EB_OK;
}

static void move(const char *x, char *y, const eb_loop *loop, int64_t flat, int64_t flat_end, int64_t size) {
    eb_cursor c;
    eb_cursor_seek(loop, &c, flat);
    while (flat < flat_end) {
        int64_t run = eb_cursor_run(loop, &c, flat_end - flat), last = loop->rank - 1;
        for (int64_t i = 0; i < run; i++)
            memcpy(y + (c.offset[1] + i * loop->stride[1][last]) * size,
                   x + (c.offset[0] + i * loop->stride[0][last]) * size, (size_t)size);
        eb_cursor_advance(loop, &c, run);
        flat += run;
    }
}

static eb_status plan_copy(eb_node *node) {
    eb_loop loop;
    eb_status status = copy_loop(node, &loop);
    if (status == EB_OK) node->tiles = eb_ceil_div(loop.count, EB_REFERENCE_TILE);
    return status;
}

static eb_status run_copy(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    eb_loop loop;
    copy_loop(node, &loop);
    move(eb_data(eb_input(node, EB_IN_COPY_X), bases), eb_data(eb_output(node), bases), &loop, begin * EB_REFERENCE_TILE,
         eb_min(loop.count, end * EB_REFERENCE_TILE), eb_element_size(eb_output(node)->dtype));
    return EB_OK;
}
const eb_kernel any_copy__generic_reference = {plan_copy, run_copy};

/* concat: a tile is an input. */
static eb_status plan_concat(eb_node *node) {
    for (int i = 0; i < node->n_inputs; i++)
        if (eb_input(node, i)->dtype != eb_output(node)->dtype) return EB_NOT_APPLICABLE;
    node->tiles = node->n_inputs;
    return EB_OK;
}

static eb_status run_concat(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *y = eb_output(node);
    int axis = (int)node->ints[EB_INT_CONCAT_AXIS];
    int64_t size = eb_element_size(y->dtype), start = 0;
    for (int64_t i = 0; i < end; i++) {
        const eb_tensor *x = eb_input(node, (int)i);
        eb_loop loop = eb_loop_new(2);
        for (int a = 0; a < x->rank; a++) {
            int64_t strides[2] = {x->stride[a], y->stride[a]};
            eb_loop_axis(&loop, x->shape[a], strides);
        }
        char *target = (char *)eb_data(y, bases) + start * y->stride[axis] * size;
        if (i >= begin) move(eb_data(x, bases), target, &loop, 0, loop.count, size);
        start += x->shape[axis];
    }
    return EB_OK;
}
const eb_kernel any_concat__generic_reference = {plan_concat, run_concat};

/* flip: x from its last element along the axes, in steps backwards. */
static int64_t flip_loop(const eb_node *node, eb_loop *loop) {
    const eb_tensor *x = eb_input(node, EB_IN_FLIP_X), *y = eb_output(node);
    int64_t first = 0;
    *loop = eb_loop_new(2);
    for (int a = 0; a < x->rank; a++) {
        int is_flipped = node->ints[EB_INT_FLIP_AXES] >> a & 1;
        int64_t strides[2] = {is_flipped ? -x->stride[a] : x->stride[a], y->stride[a]};
        if (is_flipped && x->shape[a] > 0) first += (x->shape[a] - 1) * x->stride[a];
        eb_loop_axis(loop, x->shape[a], strides);
    }
    return first;
}

static eb_status plan_flip(eb_node *node) {
    node->tiles = eb_ceil_div(eb_size(eb_output(node)), EB_REFERENCE_TILE);
    return eb_input(node, EB_IN_FLIP_X)->dtype == eb_output(node)->dtype ? EB_OK : EB_NOT_APPLICABLE;
}

static eb_status run_flip(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    eb_loop loop;
    int64_t size = eb_element_size(eb_output(node)->dtype), first = flip_loop(node, &loop);
    move((const char *)eb_data(eb_input(node, EB_IN_FLIP_X), bases) + first * size, eb_data(eb_output(node), bases), &loop,
         begin * EB_REFERENCE_TILE, eb_min(loop.count, end * EB_REFERENCE_TILE), size);
    return EB_OK;
}
const eb_kernel any_flip__generic_reference = {plan_flip, run_flip};
