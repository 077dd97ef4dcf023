/* Reference of full, arange, tril and triu. */
#include "../ops.h"
#include "element.h"

static eb_status plan_output(eb_node *node) {
    node->tiles = eb_ceil_div(eb_size(eb_output(node)), EB_REFERENCE_TILE);
    return EB_OK;
}

static eb_status run_full(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *y = eb_output(node);
    eb_loop loop = eb_loop_axes(y, 0, y->rank);
    for (int64_t i = begin * EB_REFERENCE_TILE; i < eb_min(loop.count, end * EB_REFERENCE_TILE); i++)
        eb_store_any(y->dtype, eb_data(y, bases), eb_loop_offset(&loop, i), 1, node->reals[EB_REAL_FULL_VALUE], 0);
    return EB_OK;
}
const eb_kernel any_full__generic_reference = {plan_output, run_full};

static eb_status run_arange(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *y = eb_output(node);
    double start = node->reals[EB_REAL_ARANGE_START], step = node->reals[EB_REAL_ARANGE_STEP];
    for (int64_t i = begin * EB_REFERENCE_TILE; i < eb_min(eb_size(y), end * EB_REFERENCE_TILE); i++)
        eb_store_any(y->dtype, eb_data(y, bases), i * y->stride[0], 1, start + step * (double)i, 0);
    return EB_OK;
}
const eb_kernel any_arange__generic_reference = {plan_output, run_arange};

/* tril keeps columns <= row + diagonal, triu columns >= row + diagonal; the rest is zero. Input 0 of both is x. */
static eb_status triangle(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int lower) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    int64_t size = eb_element_size(x->dtype), rows = x->shape[x->rank - 2], columns = x->shape[x->rank - 1];
    eb_loop from = eb_loop_axes(x, 0, x->rank), to = eb_loop_axes(y, 0, y->rank);
    for (int64_t i = begin * EB_REFERENCE_TILE; i < eb_min(to.count, end * EB_REFERENCE_TILE); i++) {
        int64_t above = i % columns - i / columns % rows, diagonal = node->ints[0]; /* any number: not to be subtracted */
        char *target = (char *)eb_data(y, bases) + eb_loop_offset(&to, i) * size;
        if (lower ? above <= diagonal : above >= diagonal)
            memcpy(target, (char *)eb_data(x, bases) + eb_loop_offset(&from, i) * size, (size_t)size);
        else
            memset(target, 0, (size_t)size);
    }
    return EB_OK;
}

static eb_status run_tril(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return triangle(node, bases, begin, end, 1);
}
static eb_status run_triu(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return triangle(node, bases, begin, end, 0);
}
const eb_kernel any_tril__generic_reference = {plan_output, run_tril};
const eb_kernel any_triu__generic_reference = {plan_output, run_triu};
