/* index_put into whole rows: the leading axes are indexed and nothing is added up, so each position of the indices takes
 * one run of bytes from the values. What is not written stays where the output lies over x (a cache that has a token put
 * into it), and is copied otherwise. One tile: a position may be written twice, and the last one counts. */
#include <string.h>

#include "../../ops.h"
#include "../../ref/indexed.h"

enum { X = EB_IN_INDEX_PUT_X, VALUES = EB_IN_INDEX_PUT_VALUES, INDICES = EB_IN_INDEX_PUT_INDICES };

/* Whether what one position of the indices takes lies in one piece of the values. */
static int has_rows(const eb_tensor *values, const eb_indexed *indexed) {
    int64_t step = 1;
    for (int axis = indexed->rank - 1; axis >= indexed->block; axis--) {
        if (values->shape[axis] > 1 && values->stride[axis] != step) return 0;
        step *= values->shape[axis];
    }
    return 1;
}

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, X), *values = eb_input(node, VALUES), *y = eb_output(node);
    const int64_t axes = node->ints[EB_INT_INDEX_PUT_AXES];
    const int indices = node->n_inputs - INDICES;
    if (node->ints[EB_INT_INDEX_PUT_ACCUMULATE] || axes != ((int64_t)1 << indices) - 1) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(y)) return EB_NOT_APPLICABLE;
    eb_indexed indexed = eb_indexed_axes(node, INDICES, axes);
    if (values->rank != indexed.rank) return EB_NOT_APPLICABLE;
    for (int axis = 0; axis < indexed.rank; axis++)
        if (values->shape[axis] != indexed.shape[axis]) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x) || !has_rows(values, &indexed)) return EB_NEEDS_DENSE;
    node->tiles = 1;
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)begin, (void)end, (void)scratch;
    const eb_tensor *y = eb_output(node), *given = eb_input(node, VALUES);
    const int64_t size = eb_element_size(y->dtype);
    const char *x = eb_data(eb_input(node, X), bases), *values = eb_data(given, bases);
    char *target = eb_data(y, bases);
    eb_indexed indexed = eb_indexed_axes(node, INDICES, node->ints[EB_INT_INDEX_PUT_AXES]);
    int64_t row = size, positions = 1, out[2 * EB_MAX_RANK] = {0};
    for (int axis = indexed.block; axis < indexed.rank; axis++) row *= indexed.shape[axis];
    for (int axis = 0; axis < indexed.block; axis++) positions *= indexed.shape[axis];
    if (x != target) memcpy(target, x, (size_t)(eb_size(y) * size));
    for (int64_t i = 0; i < positions; i++) {
        const int64_t at = eb_indexed_offset(&indexed, node, bases, y, out);
        if (at < 0) return EB_INDEX_OUT_OF_RANGE;
        int64_t from = 0;
        for (int axis = 0; axis < indexed.block; axis++) from += out[axis] * given->stride[axis];
        memcpy(target + at * size, values + from * size, (size_t)row);
        for (int axis = indexed.block - 1; axis >= 0 && ++out[axis] == indexed.shape[axis]; axis--) out[axis] = 0;
    }
    return EB_OK;
}
const eb_kernel any_index_put__generic_rows = {plan, run};
