/* Reference of embedding_norm: each sum rounded to float as an add of its own would round it, the norm in double. */
#include "weight.h"

/* Values and ids of term t are the inputs 2 t and 2 t + 1. */
enum { TERMS = 3, WEIGHT = EB_IN_EMBEDDING_NORM_WEIGHT, BIAS = EB_IN_EMBEDDING_NORM_BIAS };
_Static_assert((int)EB_IN_EMBEDDING_NORM_FIRST == 0 && (int)EB_IN_EMBEDDING_NORM_FIRST_IDS == 1, "term 0 is a pair");
_Static_assert((int)EB_IN_EMBEDDING_NORM_SECOND == 2 && (int)EB_IN_EMBEDDING_NORM_SECOND_IDS == 3, "term 1 is a pair");
_Static_assert((int)EB_IN_EMBEDDING_NORM_THIRD == 4 && (int)EB_IN_EMBEDDING_NORM_THIRD_IDS == 5, "term 2 is a pair");

static eb_status plan(eb_node *node) {
    const eb_tensor *y = eb_output(node);
    for (int t = 0; t < TERMS; t++) {
        if (!eb_is_present(node, 2 * t)) continue;
        const eb_tensor *values = eb_input(node, 2 * t);
        if (values->is_packed || (!eb_is_encoded(values) && values->dtype != EB_F32)) return EB_NOT_APPLICABLE;
    }
    int64_t n = y->shape[y->rank - 1];
    node->tiles = eb_tile_count(n ? eb_size(y) / n : 0, n);
    node->scratch_bytes = n * 8;
    return EB_OK;
}

/* Offset of `t`, broadcast to the first `rank` axes of the result, at row `row`. */
static int64_t offset_of_row(const eb_tensor *t, const eb_tensor *y, int rank, int64_t row) {
    int64_t offset = 0;
    for (int axis = y->rank - 2; axis >= 0; axis--) {
        offset += row % y->shape[axis] * eb_broadcast_stride(t, rank, axis);
        row /= y->shape[axis];
    }
    return offset;
}

/* Add term `t` of a row to `sums` and round each sum. The first term is copied. */
static eb_status add_term(const eb_node *node, void *const *bases, int t, int64_t row, double *sums) {
    const eb_tensor *y = eb_output(node), *values = eb_input(node, 2 * t);
    const eb_weight w = eb_weight_of(node, bases, 2 * t, EB_F32);
    int64_t at[2] = {0}, offset = 0, step = values->stride[values->rank - 1];
    const int has_ids = eb_is_present(node, 2 * t + 1);
    if (has_ids) {
        const eb_tensor *ids = eb_input(node, 2 * t + 1);
        at[0] = eb_load_int(ids->dtype, eb_data(ids, bases), offset_of_row(ids, y, y->rank - 1, row));
        if (at[0] < 0 || at[0] >= eb_decoded_size(values, 0)) return EB_INDEX_OUT_OF_RANGE;
    } else
        offset = offset_of_row(values, y, y->rank, row);
    for (int64_t i = 0; i < y->shape[y->rank - 1]; i++) {
        at[1] = i;
        const double value = has_ids ? eb_element_at(&w, at) : eb_load_real(EB_F32, w.data, offset + i * step);
        sums[i] = t ? (double)(float)(sums[i] + value) : value;
    }
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *y = eb_output(node);
    const float *weight = eb_optional_data(node, WEIGHT, bases);
    const float *bias = eb_optional_data(node, BIAS, bases);
    int centred = node->ints[EB_INT_EMBEDDING_NORM_NORM] == EB_EMBEDDING_NORM_NORM_LAYER_NORM;
    int64_t n = y->shape[y->rank - 1], rows = n ? eb_size(y) / n : 0;
    double *sums = scratch;
    for (int64_t row = eb_piece(rows, node->tiles, begin); row < eb_piece(rows, node->tiles, end); row++) {
        for (int t = 0; t < TERMS; t++) {
            eb_status status = eb_is_present(node, 2 * t) ? add_term(node, bases, t, row, sums) : EB_OK;
            if (status != EB_OK) return status;
        }
        float *target = (float *)eb_data(y, bases) + offset_of_row(y, y, y->rank, row);
        double mean = 0, square = 0;
        for (int64_t i = 0; i < n && centred; i++) mean += sums[i];
        mean /= (double)n;
        for (int64_t i = 0; i < n; i++) square += (sums[i] - mean) * (sums[i] - mean);
        double scale = 1 / sqrt(square / (double)n + node->reals[EB_REAL_EMBEDDING_NORM_EPSILON]);
        for (int64_t i = 0; i < n; i++) {
            double v = (sums[i] - mean) * scale;
            if (weight) v *= weight[i * eb_input(node, WEIGHT)->stride[0]];
            if (bias) v += bias[i * eb_input(node, BIAS)->stride[0]];
            target[i * y->stride[y->rank - 1]] = (float)v;
        }
    }
    return EB_OK;
}
const eb_kernel any_anyw_embedding_norm__generic_reference = {plan, run};
