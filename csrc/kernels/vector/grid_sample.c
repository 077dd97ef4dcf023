/* grid_sample of float32 and float64. A tile is a block of points and a group of channels: where each point reads, and
 * its weights, are worked out once and serve all channels. x and the grid have any strides. */
#include "../../grid.h"
#include "vec.h"

enum {
    POINTS = 128,    /* of a block */
    WORTH = 1 << 14, /* elements of the result a tile */
    MOST = 4,        /* taps of an axis */
};

typedef struct {
    int64_t blocks, groups, channels; /* of points; of `channels` each */
} tiling;
EB_NODE_PLAN(tiling)

/* Of a block, tap by tap. */
typedef struct {
    uint32_t offset[MOST * MOST][POINTS];
    union {
        struct {
            float weight[MOST * MOST][POINTS];
            int32_t mask[MOST * MOST][POINTS]; /* 0: a zero is read */
        } f32;
        struct {
            double weight[MOST * MOST][POINTS];
            int64_t mask[MOST * MOST][POINTS];
        } f64;
    };
    double place[2][POINTS];              /* along columns, rows */
    int32_t part_offset[2][MOST][POINTS]; /* -1: none */
    double part_weight[2][MOST][POINTS];
} block;

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_GRID_SAMPLE_X), *y = eb_output(node);
    if ((x->dtype != EB_F32 && x->dtype != EB_F64) || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (x->stride[2] < 0 || x->stride[3] < 0) return EB_NEEDS_DENSE;
    if ((x->shape[2] - 1) * x->stride[2] + (x->shape[3] - 1) * x->stride[3] > INT32_MAX) return EB_NOT_APPLICABLE;
    const int64_t points = y->shape[2] * y->shape[3];
    if (eb_size(y) == 0) return EB_OK;
    edit_tiling(node)->blocks = eb_ceil_div(points, POINTS);
    edit_tiling(node)->channels = eb_max(1, WORTH / eb_min(points, POINTS));
    edit_tiling(node)->groups = eb_ceil_div(y->shape[1], tiling_of(node)->channels);
    node->tiles = y->shape[0] * tiling_of(node)->blocks * tiling_of(node)->groups;
    node->scratch_bytes = sizeof(block);
    return EB_OK;
}

/* --- where points read ---------------------------------------------------------------------------------------------- */

EB_INLINE void find_places(const eb_node *node, void *const *bases, int64_t image, int64_t first, int64_t count,
                           const eb_grid_axis *axes, block *b, const int wide) {
    const eb_tensor *grid = eb_input(node, EB_IN_GRID_SAMPLE_GRID);
    const void *data = eb_data(grid, bases);
    const int64_t columns = grid->shape[2], step = grid->stride[2];
    int64_t row = first / columns, column = first % columns;
    for (int64_t p = 0; p < count; p++) {
        const int64_t at = image * grid->stride[0] + row * grid->stride[1] + column * step;
        for (int axis = 0; axis < 2; axis++) {
            const int64_t from = at + axis * grid->stride[3];
            b->place[axis][p] = wide ? ((const double *)data)[from] : ((const float *)data)[from];
        }
        if (++column == columns) column = 0, row++;
    }
    for (int axis = 0; axis < 2; axis++) {
        const eb_grid_axis a = axes[axis];
        double *place = b->place[axis];
        for (int64_t p = count; p < POINTS; p++) place[p] = 0;
        for (int p = 0; p < POINTS; p++) place[p] = eb_grid_place(a, place[p], wide);
    }
}

EB_INLINE void find_taps(block *b, const eb_grid_axis *axes, const int64_t *steps, const int64_t mode, const int64_t padding,
                         const int wide) {
    const int taps = eb_grid_taps(mode);
    for (int axis = 0; axis < 2; axis++)
        for (int t = 0; t < taps; t++) {
            const eb_grid_axis a = axes[axis];
            const int32_t step = (int32_t)steps[axis];
            const double *place = b->place[axis];
            int32_t *offset = b->part_offset[axis][t];
            double *weight = b->part_weight[axis][t];
            for (int p = 0; p < POINTS; p++) {
                double share;
                const double found = eb_grid_tap(a, place[p], mode, padding, wide, t, &share);
                const int is_inside = found >= 0 && found <= a.last;
                const int32_t from = (int32_t)(is_inside ? found : 0) * step;
                offset[p] = is_inside ? from : -1;
                weight[p] = share;
            }
        }
#define COMBINE(of, real, integer)                                                            \
    for (int p = 0; p < POINTS; p++) {                                                        \
        const int32_t mask = ~((row[p] | column[p]) >> 31);                                   \
        b->offset[tap][p] = (uint32_t)((row[p] + column[p]) & mask);                          \
        b->of.mask[tap][p] = (integer)mask;                                                   \
        b->of.weight[tap][p] = (real)(row_weight[p] * weight[p]);                             \
    }
    for (int tap = 0; tap < taps * taps; tap++) {
        const int32_t *row = b->part_offset[1][tap / taps], *column = b->part_offset[0][tap % taps];
        const double *row_weight = b->part_weight[1][tap / taps], *weight = b->part_weight[0][tap % taps];
        if (wide)
            COMBINE(f64, double, int64_t)
        else
            COMBINE(f32, float, int32_t)
    }
}

/* --- sums ----------------------------------------------------------------------------------------------------------- */

/* A vector of elements here and there. The instructions that gather are slower than loads, at least on Zen 3. */
#define AT(i) x[at[i]]
#define FOUR(i) AT(i), AT(i + 1), AT(i + 2), AT(i + 3)
#if EB_VL == 4
#define LANES_f64 AT(0), AT(1)
#define LANES_f32 FOUR(0)
#elif EB_VL == 8
#define LANES_f64 FOUR(0)
#define LANES_f32 FOUR(0), FOUR(4)
#elif EB_VL == 16
#define LANES_f64 FOUR(0), FOUR(4)
#define LANES_f32 FOUR(0), FOUR(4), FOUR(8), FOUR(12)
#endif

#define SUM(of, real, vector, bits)                                                                             \
    EB_INLINE void sum_##of(const block *b, const real *x, const int taps, int64_t count, real *y) {            \
        enum { LANES = sizeof(vector) / sizeof(real) };                                                         \
        for (int64_t p = 0; p < count; p += LANES) {                                                            \
            vector sum = {0};                                                                                   \
            EB_UNROLL                                                                                           \
            for (int t = 0; t < taps; t++) {                                                                    \
                const uint32_t *at = b->offset[t] + p;                                                          \
                const vector value = {LANES_##of};                                                              \
                const bits mask = *(const bits *)(b->of.mask[t] + p);                                           \
                const vector kept = (vector)((bits)value & mask);                                               \
                const vector term = taps == 1 ? kept : kept * *(const vector *)(b->of.weight[t] + p);           \
                sum = t ? sum + term : term;                                                                    \
            }                                                                                                   \
            if (p + LANES <= count)                                                                             \
                memcpy(y + p, &sum, sizeof sum);                                                                \
            else                                                                                                \
                memcpy(y + p, &sum, (size_t)(count - p) * sizeof(real));                                        \
        }                                                                                                       \
    }
SUM(f32, float, vf, vi)
SUM(f64, double, vd, vl)

typedef struct {
    const void *x;
    void *y;
    int64_t x_step, y_step, channels, count; /* steps from channel to channel */
} target;

EB_INLINE void sum_channels(const block *b, const target *to, const int taps, const int wide) {
    for (int64_t c = 0; c < to->channels; c++) {
        if (wide)
            sum_f64(b, (const double *)to->x + c * to->x_step, taps, to->count, (double *)to->y + c * to->y_step);
        else
            sum_f32(b, (const float *)to->x + c * to->x_step, taps, to->count, (float *)to->y + c * to->y_step);
    }
}

EB_INLINE eb_status run_tiles(const eb_node *node, void *const *bases, int64_t begin, int64_t end, block *b, const int wide) {
    const eb_tensor *x = eb_input(node, EB_IN_GRID_SAMPLE_X), *y = eb_output(node);
    const int64_t mode = node->ints[EB_INT_GRID_SAMPLE_MODE], padding = node->ints[EB_INT_GRID_SAMPLE_PADDING];
    const int64_t corners = node->ints[EB_INT_GRID_SAMPLE_ALIGN_CORNERS], points = y->shape[2] * y->shape[3];
    const eb_grid_axis axes[2] = {eb_grid_axis_of(x->shape[3], corners), eb_grid_axis_of(x->shape[2], corners)};
    const int64_t steps[2] = {x->stride[3], x->stride[2]}, size = wide ? 8 : 4;
    const tiling t = *tiling_of(node);
    for (int64_t tile = begin; tile < end; tile++) {
        const int64_t image = tile / (t.blocks * t.groups), first = tile / t.groups % t.blocks * POINTS;
        const int64_t channel = tile % t.groups * t.channels, count = eb_min(POINTS, points - first);
        find_places(node, bases, image, first, count, axes, b, wide);
        const target to = {
            .x = (const char *)eb_data(x, bases) + (image * x->stride[0] + channel * x->stride[1]) * size,
            .y = (char *)eb_data(y, bases) + ((image * y->shape[1] + channel) * points + first) * size,
            .x_step = x->stride[1], .y_step = points, .channels = eb_min(t.channels, y->shape[1] - channel), .count = count};
        switch (mode) {
#define MODE(of, taps)                                                                                                 \
    case of:                                                                                                           \
        find_taps(b, axes, steps, of, padding, wide);                                                                  \
        sum_channels(b, &to, taps, wide);                                                                              \
        break;
            MODE(EB_GRID_SAMPLE_MODE_NEAREST, 1)
            MODE(EB_GRID_SAMPLE_MODE_BILINEAR, 4)
            MODE(EB_GRID_SAMPLE_MODE_BICUBIC, 16)
        }
    }
    return EB_OK;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    return eb_output(node)->dtype == EB_F64 ? run_tiles(node, bases, begin, end, scratch, 1)
                                            : run_tiles(node, bases, begin, end, scratch, 0);
}
const eb_kernel EB_PASTE(any_, grid_sample, __, EB_ISA, _, vector) = {plan, run};
