/* embedding of a table that is stored in an encoding: each row of the result is decoded from the table. */
#include "../../ops.h"
#include "table.h"

enum { TILE_ELEMENTS = 1 << 14 };

static eb_status plan(eb_node *node) {
    const eb_tensor *table = eb_input(node, EB_IN_EMBEDDING_TABLE), *ids = eb_input(node, EB_IN_EMBEDDING_IDS), *y = eb_output(node);
    const eb_table_form form = table_form(table);
    if (form == TABLE_OTHER || form == TABLE_FLOATS || table->is_packed || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (ids->dtype != EB_I64 && ids->dtype != EB_I32) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(table) || !eb_is_dense(ids)) return EB_NEEDS_DENSE;
    node->tiles = eb_ceil_div(eb_size(y), TILE_ELEMENTS);
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *table = eb_input(node, EB_IN_EMBEDDING_TABLE), *ids = eb_input(node, EB_IN_EMBEDDING_IDS);
    const void *at = eb_data(ids, bases);
    float *y = eb_data(eb_output(node), bases);
    const int64_t n = table->shape[1], rows = eb_size(ids);
    for (int64_t i = eb_piece(rows, node->tiles, begin); i < eb_piece(rows, node->tiles, end); i++) {
        const int64_t id = ids->dtype == EB_I64 ? ((const int64_t *)at)[i] : ((const int32_t *)at)[i];
        if (id < 0 || id >= table->shape[0]) return EB_INDEX_OUT_OF_RANGE;
        read_table_row(node, bases, EB_IN_EMBEDDING_TABLE, id, y + i * n);
    }
    return EB_OK;
}
const eb_kernel EB_PASTE(f32_anyw_embedding, __, EB_ISA, _, vector, ) = {plan, run};
