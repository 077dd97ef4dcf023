/* Reference of pad, resample and grid_sample. */
#include "../grid.h"
#include "../ops.h"
#include "element.h"

static eb_status plan_output(eb_node *node) {
    node->tiles = eb_tile_count(eb_size(eb_output(node)), 8);
    return EB_OK;
}

/* The index along an axis of `size` that an index outside of it stands for; -1: none, the value itself. */
static int64_t source_of(int64_t mode, int64_t at, int64_t size) {
    if (at >= 0 && at < size) return at;
    switch (mode) {
    case EB_PAD_MODE_REFLECT: return at < 0 ? -at : 2 * (size - 1) - at;
    case EB_PAD_MODE_REPLICATE: return at < 0 ? 0 : size - 1;
    case EB_PAD_MODE_CIRCULAR: return at < 0 ? at + size : at - size;
    default: return -1;
    }
}

static eb_status run_pad(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, EB_IN_PAD_X), *y = eb_output(node);
    const char *source = eb_data(x, bases);
    char *target = eb_data(y, bases);
    int64_t count = eb_size(y), size = eb_element_size(y->dtype);
    for (int64_t flat = eb_piece(count, node->tiles, begin); flat < eb_piece(count, node->tiles, end); flat++) {
        int64_t rest = flat, x_at = 0, y_at = 0, inside = 1;
        for (int axis = y->rank - 1; axis >= 0; axis--) {
            int64_t at = rest % y->shape[axis];
            rest /= y->shape[axis];
            y_at += at * y->stride[axis];
            int64_t from = source_of(node->ints[EB_INT_PAD_MODE], at - node->ints[EB_INT_PAD_LOW + axis], x->shape[axis]);
            inside &= from >= 0;
            x_at += from * x->stride[axis];
        }
        if (inside)
            memcpy(target + y_at * size, source + x_at * size, (size_t)size);
        else
            eb_store_any(y->dtype, target, y_at, 1, node->reals[EB_REAL_PAD_VALUE], 0);
    }
    return EB_OK;
}
const eb_kernel any_pad__generic_reference = {plan_output, run_pad};

static eb_status run_resample(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, EB_IN_RESAMPLE_X), *index = eb_input(node, EB_IN_RESAMPLE_INDEX);
    const eb_tensor *weight = eb_input(node, EB_IN_RESAMPLE_WEIGHT), *y = eb_output(node);
    int along = (int)node->ints[EB_INT_RESAMPLE_AXIS];
    int64_t count = eb_size(y);
    for (int64_t flat = eb_piece(count, node->tiles, begin); flat < eb_piece(count, node->tiles, end); flat++) {
        int64_t rest = flat, x_at = 0, y_at = 0, row = 0;
        for (int axis = y->rank - 1; axis >= 0; axis--) {
            int64_t at = rest % y->shape[axis];
            rest /= y->shape[axis];
            y_at += at * y->stride[axis];
            if (axis == along)
                row = at;
            else
                x_at += at * x->stride[axis];
        }
        double sum = 0;
        for (int64_t tap = 0; tap < index->shape[1]; tap++) {
            int64_t index_at = row * index->stride[0] + tap * index->stride[1];
            int64_t weight_at = row * weight->stride[0] + tap * weight->stride[1];
            int64_t from = eb_load_int(index->dtype, eb_data(index, bases), index_at);
            if (from < -1 || from >= x->shape[along]) return EB_INDEX_OUT_OF_RANGE;
            if (from < 0) continue;
            sum += eb_load_real(weight->dtype, eb_data(weight, bases), weight_at) *
                   eb_load_real(x->dtype, eb_data(x, bases), x_at + from * x->stride[along]);
        }
        eb_store_real(y->dtype, eb_data(y, bases), y_at, sum);
    }
    return EB_OK;
}
const eb_kernel any_resample__generic_reference = {plan_output, run_resample};

static eb_status run_grid_sample(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, EB_IN_GRID_SAMPLE_X), *grid = eb_input(node, EB_IN_GRID_SAMPLE_GRID);
    const eb_tensor *y = eb_output(node);
    const int64_t mode = node->ints[EB_INT_GRID_SAMPLE_MODE], padding = node->ints[EB_INT_GRID_SAMPLE_PADDING];
    const int wide = x->dtype == EB_F64, taps = eb_grid_taps(mode);
    const int64_t count = eb_size(y), corners = node->ints[EB_INT_GRID_SAMPLE_ALIGN_CORNERS];
    const eb_grid_axis rows = eb_grid_axis_of(x->shape[2], corners), columns = eb_grid_axis_of(x->shape[3], corners);
    for (int64_t flat = eb_piece(count, node->tiles, begin); flat < eb_piece(count, node->tiles, end); flat++) {
        int64_t at[EB_MAX_RANK];
        eb_coordinates(y, flat, at);
        const int64_t point = at[0] * grid->stride[0] + at[2] * grid->stride[1] + at[3] * grid->stride[2];
        const int64_t image = at[0] * x->stride[0] + at[1] * x->stride[1];
        double place[2], sum = 0;
        for (int axis = 0; axis < 2; axis++)
            place[axis] = eb_grid_place(axis ? rows : columns,
                                        eb_load_real(grid->dtype, eb_data(grid, bases), point + axis * grid->stride[3]), wide);
        for (int tap = 0; tap < taps * taps; tap++) {
            double row_weight, weight, value = 0;
            const double row = eb_grid_tap(rows, place[1], mode, padding, wide, tap / taps, &row_weight);
            const double column = eb_grid_tap(columns, place[0], mode, padding, wide, tap % taps, &weight);
            if (row >= 0 && row <= rows.last && column >= 0 && column <= columns.last)
                value = eb_load_real(x->dtype, eb_data(x, bases),
                                     image + (int64_t)row * x->stride[2] + (int64_t)column * x->stride[3]);
            sum += value * (row_weight * weight);
        }
        eb_store_real(y->dtype, eb_data(y, bases), eb_offset_at(y, at), sum);
    }
    return EB_OK;
}
const eb_kernel any_grid_sample__generic_reference = {plan_output, run_grid_sample};
