/* softmax and log_softmax over an axis that is not the last one: COLUMNS results at a time, vectors across the axes behind.
 *
 * Three passes over the rows of a piece: the largest of each column, the powers and their sums, the scaling. A piece of 256
 * columns and 32 rows lies in the first cache. Sums of BLOCK_ROWS rows are added, so that many rows lose no bits.
 */
#include "../../ops.h"
#include "logarithm.h"

enum {
    TILE_ELEMENTS = 16384,
    COLUMNS = 256, /* a multiple of the vector on every ISA */
    VECTORS = COLUMNS / EB_VL,
    BLOCK_ROWS = 64
};

typedef struct {
    eb_loop outer; /* operands x and y */
    int64_t rows, columns, x_step, y_step;
} problem;

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ROWS_X), *y = eb_output(node);
    const int axis = (int)node->ints[EB_INT_SOFTMAXES_AXIS];
    problem p = {.outer = eb_loop_new(2), .rows = x->shape[axis], .columns = 1, .x_step = x->stride[axis], .y_step = y->stride[axis]};
    for (int a = 0; a < axis; a++) eb_loop_axis(&p.outer, x->shape[a], (int64_t[]){x->stride[a], y->stride[a]});
    for (int a = axis + 1; a < x->rank; a++) p.columns *= x->shape[a];
    return p;
}

typedef struct {
    int64_t pieces; /* of columns, a tile */
} tiling;
EB_NODE_PLAN(tiling)

static int64_t count_pieces(const problem *p) { return p->outer.count * eb_ceil_div(p->columns, COLUMNS); }

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ROWS_X), *y = eb_output(node);
    if (x->rank == 0 || node->ints[EB_INT_SOFTMAXES_AXIS] == x->rank - 1) return EB_NOT_APPLICABLE;
    const int behind = (int)node->ints[EB_INT_SOFTMAXES_AXIS] + 1;
    if (!eb_is_dense_from(y, behind)) return EB_NOT_APPLICABLE;
    if (!eb_is_dense_from(x, behind)) return EB_NEEDS_DENSE;
    problem p = describe(node);
    if (eb_size(x) == 0) return EB_OK;
    edit_tiling(node)->pieces = eb_max(1, TILE_ELEMENTS / (p.rows * eb_min(p.columns, COLUMNS)));
    node->tiles = eb_ceil_div(count_pieces(&p), tiling_of(node)->pieces);
    return EB_OK;
}

/* Vector number k of a row of `columns`; what is beyond the row is 0. */
EB_INLINE vf take(const float *row, int k, int64_t columns) {
    return (k + 1) * EB_VL <= columns ? vf_load(row + k * EB_VL) : vf_load_part(row + k * EB_VL, columns - k * EB_VL);
}
EB_INLINE void put(float *row, int k, int64_t columns, vf v) {
    if ((k + 1) * EB_VL <= columns)
        vf_store(row + k * EB_VL, v);
    else
        vf_store_part(row + k * EB_VL, v, columns - k * EB_VL);
}

/* `columns` results of p->rows rows. */
EB_INLINE void run_piece(const problem *p, const float *x, float *y, int64_t columns, const int is_log) {
    vf top[VECTORS], total[VECTORS];
    const int vectors = (int)eb_ceil_div(columns, EB_VL);
    for (int k = 0; k < vectors; k++) top[k] = vf_set(-INFINITY), total[k] = vf_set(0);
    for (int64_t r = 0; r < p->rows; r++)
        for (int k = 0; k < vectors; k++) top[k] = vf_max(take(x + r * p->x_step, k, columns), top[k]); /* NaN comes back in the sum */
    for (int64_t r = 0; r < p->rows;) {
        const int64_t end = eb_min(p->rows, r + BLOCK_ROWS);
        vf sum[VECTORS];
        for (int k = 0; k < vectors; k++) sum[k] = vf_set(0);
        for (; r < end; r++)
            for (int k = 0; k < vectors; k++) {
                const vf power = vf_exp_nonpositive(take(x + r * p->x_step, k, columns) - top[k]);
                sum[k] += power;
                if (!is_log) put(y + r * p->y_step, k, columns, power);
            }
        for (int k = 0; k < vectors; k++) total[k] += sum[k];
    }
    for (int k = 0; k < vectors; k++) total[k] = is_log ? vf_log(total[k]) : 1.0f / total[k];
    for (int64_t r = 0; r < p->rows; r++)
        for (int k = 0; k < vectors; k++) {
            float *at = y + r * p->y_step;
            put(at, k, columns, is_log ? take(x + r * p->x_step, k, columns) - top[k] - total[k] : take(at, k, columns) * total[k]);
        }
}

EB_INLINE eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, const int is_log) {
    const problem p = describe(node);
    const float *x = eb_data(eb_input(node, EB_IN_ROWS_X), bases);
    float *y = eb_data(eb_output(node), bases);
    const int64_t a_row = eb_ceil_div(p.columns, COLUMNS), each = tiling_of(node)->pieces;
    for (int64_t i = begin * each; i < eb_min(count_pieces(&p), end * each); i++) {
        eb_cursor at;
        eb_cursor_seek(&p.outer, &at, i / a_row);
        const int64_t first = i % a_row * COLUMNS;
        run_piece(&p, x + at.offset[0] + first, y + at.offset[1] + first, eb_min(COLUMNS, p.columns - first), is_log);
    }
    return EB_OK;
}

static eb_status run_softmax(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run(node, bases, begin, end, 0);
}
static eb_status run_log_softmax(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run(node, bases, begin, end, 1);
}
const eb_kernel EB_SYMBOL(softmax, columns) = {plan, run_softmax};
const eb_kernel EB_SYMBOL(log_softmax, columns) = {plan, run_log_softmax};
