/* Reference of embedding, gather, index_select and index; an index outside of its axis stops the run. */
#include "../ops.h"
#include "element.h"
#include "indexed.h"
#include "weight.h"

/* Input 0 is what is read: the table of embedding, x of the others. */
static eb_status plan_output(eb_node *node) {
    if (eb_input(node, 0)->is_packed) return EB_NOT_APPLICABLE;
    node->tiles = eb_ceil_div(eb_size(eb_output(node)), EB_REFERENCE_TILE);
    return EB_OK;
}

/* Where element `out` (coordinates of the output) of each op comes from; -1 where an index is out of range. */
typedef int64_t (*source_of)(const eb_node *node, void *const *bases, const int64_t *out);

static eb_status run_source(const eb_node *node, void *const *bases, int64_t begin, int64_t end, source_of source) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    int64_t size = eb_element_size(x->dtype), index[EB_MAX_RANK];
    for (int64_t i = begin * EB_REFERENCE_TILE; i < eb_min(eb_size(y), end * EB_REFERENCE_TILE); i++) {
        eb_coordinates(y, i, index);
        int64_t from = source(node, bases, index);
        if (from < 0) return EB_INDEX_OUT_OF_RANGE;
        memcpy((char *)eb_data(y, bases) + eb_offset_at(y, index) * size, (char *)eb_data(x, bases) + from * size,
               (size_t)size);
    }
    return EB_OK;
}

static int64_t read_index(const eb_node *node, void *const *bases, int input, const int64_t *at) {
    const eb_tensor *t = eb_input(node, input);
    return eb_load_int(t->dtype, eb_data(t, bases), eb_offset_at(t, at));
}

static int64_t gather_source(const eb_node *node, void *const *bases, const int64_t *out) {
    const eb_tensor *x = eb_input(node, EB_IN_GATHER_X);
    int chosen = (int)node->ints[EB_INT_GATHER_AXIS];
    int64_t position = read_index(node, bases, EB_IN_GATHER_INDEX, out), offset = 0;
    if (position < 0 || position >= x->shape[chosen]) return -1;
    for (int axis = 0; axis < x->rank; axis++) offset += (axis == chosen ? position : out[axis]) * x->stride[axis];
    return offset;
}

static int64_t index_select_source(const eb_node *node, void *const *bases, const int64_t *out) {
    const eb_tensor *x = eb_input(node, EB_IN_INDEX_SELECT_X);
    int chosen = (int)node->ints[EB_INT_INDEX_SELECT_AXIS];
    int64_t position = read_index(node, bases, EB_IN_INDEX_SELECT_INDEX, &out[chosen]), offset = 0;
    if (position < 0 || position >= x->shape[chosen]) return -1;
    for (int axis = 0; axis < x->rank; axis++) offset += (axis == chosen ? position : out[axis]) * x->stride[axis];
    return offset;
}

static int64_t index_source(const eb_node *node, void *const *bases, const int64_t *out) {
    eb_indexed indexed = eb_indexed_axes(node, EB_IN_INDEX_INDICES, node->ints[EB_INT_INDEX_AXES]);
    return eb_indexed_offset(&indexed, node, bases, eb_input(node, EB_IN_INDEX_X), out);
}

#define KERNEL(op)                                                                                                 \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_source(n, bases, begin, end, op##_source);                                                      \
    }                                                                                                              \
    const eb_kernel any_##op##__generic_reference = {plan_output, run_##op};
KERNEL(gather)
KERNEL(index_select)
KERNEL(index)

/* table [V, ...], which may be encoded, ids [...] */
static eb_status run_embedding(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *ids = eb_input(node, EB_IN_EMBEDDING_IDS), *y = eb_output(node);
    const eb_weight table = eb_weight_of(node, bases, EB_IN_EMBEDDING_TABLE, y->dtype);
    const int64_t size = eb_element_size(y->dtype), rows = eb_decoded_size(table.t, 0);
    int64_t index[EB_MAX_RANK], at[EB_MAX_RANK];
    for (int64_t i = begin * EB_REFERENCE_TILE; i < eb_min(eb_size(y), end * EB_REFERENCE_TILE); i++) {
        eb_coordinates(y, i, index);
        at[0] = read_index(node, bases, EB_IN_EMBEDDING_IDS, index);
        if (at[0] < 0 || at[0] >= rows) return EB_INDEX_OUT_OF_RANGE;
        for (int axis = 1; axis < table.t->rank; axis++) at[axis] = index[ids->rank + axis - 1];
        char *target = (char *)eb_data(y, bases) + eb_offset_at(y, index) * size;
        if (eb_is_encoded(table.t))
            eb_store_real(y->dtype, target, 0, eb_element_at(&table, at));
        else /* of any type, bit for bit */
            memcpy(target, (const char *)table.data + eb_offset_at(table.t, at) * size, (size_t)size);
    }
    return EB_OK;
}
const eb_kernel any_anyw_embedding__generic_reference = {plan_output, run_embedding};
