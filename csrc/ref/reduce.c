/* Reference of the reductions, var, argmax, argmin, cumsum and cumprod. Floats accumulate in double, integers in int64. */
#include "../ops.h"
#include "element.h"

/* --- over any set of axes --------------------------------------------------------------------------------------- */

typedef struct {
    double real;
    int64_t whole;
} sum_of;

/* What one reduction does: its start, and a step that takes an element in. */
typedef struct {
    double real_start;
    int64_t whole_start;
    double (*real)(double, double);
    int64_t (*whole)(int64_t, int64_t);
} reduction;

static double sum_real(double a, double v) { return a + v; }
static int64_t sum_whole(int64_t a, int64_t v) { return (int64_t)((uint64_t)a + (uint64_t)v); }
static double prod_real(double a, double v) { return a * v; }
static int64_t prod_whole(int64_t a, int64_t v) { return (int64_t)((uint64_t)a * (uint64_t)v); }
static double amax_real(double a, double v) { return isnan(a) || a > v ? a : v; }
static int64_t amax_whole(int64_t a, int64_t v) { return a > v ? a : v; }
static double amin_real(double a, double v) { return isnan(a) || a < v ? a : v; }
static int64_t amin_whole(int64_t a, int64_t v) { return a < v ? a : v; }
static double any_real(double a, double v) { return a != 0 || v != 0; }
static int64_t any_whole(int64_t a, int64_t v) { return a != 0 || v != 0; }
static double all_real(double a, double v) { return a != 0 && v != 0; }
static int64_t all_whole(int64_t a, int64_t v) { return a != 0 && v != 0; }

/* Split the axes: `kept` has operands x and y, `reduced` has x alone. */
static void split(const eb_node *node, int64_t axes, int keepdims, eb_loop *kept, eb_loop *reduced) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    *kept = eb_loop_new(2);
    *reduced = eb_loop_new(1);
    int out = 0;
    for (int axis = 0; axis < x->rank; axis++) {
        if (axes >> axis & 1) {
            eb_loop_axis(reduced, x->shape[axis], &x->stride[axis]);
            out += keepdims;
        } else {
            int64_t strides[2] = {x->stride[axis], y->stride[out++]};
            eb_loop_axis(kept, x->shape[axis], strides);
        }
    }
}

/* All reductions have x as input 0, and the ints (axes, keepdims) in this order. */
static eb_status plan_reduction(eb_node *node) {
    eb_loop kept, reduced;
    split(node, node->ints[0], node->ints[1] != 0, &kept, &reduced);
    node->tiles = eb_tile_count(kept.count, reduced.count);
    return EB_OK;
}
static eb_status plan_real_reduction(eb_node *node) {
    return eb_is_real(eb_input(node, 0)->dtype) ? plan_reduction(node) : EB_NOT_APPLICABLE;
}

/* Take `count` elements from `start` on into the accumulator. */
static sum_of reduce(const eb_tensor *x, const void *data, const eb_loop *reduced, int64_t start, const reduction *r) {
    sum_of a = {r->real_start, r->whole_start};
    eb_cursor c;
    eb_cursor_seek(reduced, &c, 0);
    for (int64_t done = 0; done < reduced->count;) {
        int64_t run = eb_cursor_run(reduced, &c, reduced->count), step = reduced->stride[0][reduced->rank - 1];
        for (int64_t i = 0; i < run; i++) {
            int64_t at = start + c.offset[0] + i * step;
            if (eb_is_real(x->dtype))
                a.real = r->real(a.real, eb_load_real(x->dtype, data, at));
            else
                a.whole = r->whole(a.whole, eb_load_int(x->dtype, data, at));
        }
        eb_cursor_advance(reduced, &c, run);
        done += run;
    }
    return a;
}

static eb_status run_reduction(const eb_node *node, void *const *bases, int64_t begin, int64_t end, reduction r,
                               int is_mean) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    eb_loop kept, reduced;
    split(node, node->ints[0], node->ints[1] != 0, &kept, &reduced);
    for (int64_t i = eb_piece(kept.count, node->tiles, begin); i < eb_piece(kept.count, node->tiles, end); i++) {
        eb_cursor c;
        eb_cursor_seek(&kept, &c, i);
        sum_of a = reduce(x, eb_data(x, bases), &reduced, c.offset[0], &r);
        if (is_mean) a.real /= (double)reduced.count;
        eb_store_any(y->dtype, eb_data(y, bases), c.offset[1], eb_is_real(x->dtype), a.real, a.whole);
    }
    return EB_OK;
}

#define REDUCTION(op, plan, is_mean, ...)                                                                          \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_reduction(n, bases, begin, end, (reduction){__VA_ARGS__}, is_mean);                             \
    }                                                                                                              \
    const eb_kernel any_##op##__generic_reference = {plan, run_##op};
REDUCTION(sum, plan_reduction, 0, 0, 0, sum_real, sum_whole)
REDUCTION(mean, plan_real_reduction, 1, 0, 0, sum_real, sum_whole)
REDUCTION(prod, plan_reduction, 0, 1, 1, prod_real, prod_whole)
REDUCTION(amax, plan_reduction, 0, -INFINITY, INT64_MIN, amax_real, amax_whole)
REDUCTION(amin, plan_reduction, 0, INFINITY, INT64_MAX, amin_real, amin_whole)
REDUCTION(any, plan_reduction, 0, 0, 0, any_real, any_whole)
REDUCTION(all, plan_reduction, 0, 1, 1, all_real, all_whole)

/* --- var: two passes ---------------------------------------------------------------------------------------------- */

static eb_status run_var(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    const void *data = eb_data(x, bases);
    eb_loop kept, reduced;
    split(node, node->ints[EB_INT_VAR_AXES], node->ints[EB_INT_VAR_KEEPDIMS] != 0, &kept, &reduced);
    for (int64_t i = eb_piece(kept.count, node->tiles, begin); i < eb_piece(kept.count, node->tiles, end); i++) {
        eb_cursor c;
        eb_cursor_seek(&kept, &c, i);
        reduction sum = {0, 0, sum_real, sum_whole};
        double mean = reduce(x, data, &reduced, c.offset[0], &sum).real / (double)reduced.count, square = 0;
        for (int64_t j = 0; j < reduced.count; j++) {
            double v = eb_load_real(x->dtype, data, c.offset[0] + eb_loop_offset(&reduced, j)) - mean;
            square += v * v;
        }
        double freedom = fmax(0, (double)reduced.count - node->reals[EB_REAL_VAR_CORRECTION]);
        eb_store_real(y->dtype, eb_data(y, bases), c.offset[1], square / freedom);
    }
    return EB_OK;
}
const eb_kernel any_var__generic_reference = {plan_real_reduction, run_var};

/* --- argmax, argmin: the first of equals; NaN wins ---------------------------------------------------------------- */

static eb_status plan_arg(eb_node *node) {
    const eb_tensor *x = eb_input(node, 0);
    int64_t size = x->rank ? x->shape[node->ints[0]] : 1;
    node->tiles = eb_tile_count(size ? eb_size(x) / size : 0, size);
    return EB_OK;
}

/* sign 1: the largest, -1: the smallest. */
static int64_t best_of(const eb_tensor *x, const void *data, int64_t start, int64_t size, int64_t step, int sign) {
    int64_t best = 0;
    if (eb_is_real(x->dtype)) {
        double top = sign * eb_load_real(x->dtype, data, start);
        for (int64_t i = 1; i < size && !isnan(top); i++) {
            double v = sign * eb_load_real(x->dtype, data, start + i * step);
            if (v > top || isnan(v)) top = v, best = i;
        }
        return best;
    }
    int64_t top = eb_load_int(x->dtype, data, start);
    for (int64_t i = 1; i < size; i++) {
        int64_t v = eb_load_int(x->dtype, data, start + i * step);
        if (sign > 0 ? v > top : v < top) top = v, best = i;
    }
    return best;
}

static eb_status run_arg(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int sign) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    int axis = (int)node->ints[0];
    int64_t size = x->rank ? x->shape[axis] : 1, step = x->rank ? x->stride[axis] : 0;
    eb_loop kept, reduced;
    split(node, x->rank ? (int64_t)1 << axis : 0, node->ints[1] != 0, &kept, &reduced);
    for (int64_t i = eb_piece(kept.count, node->tiles, begin); i < eb_piece(kept.count, node->tiles, end); i++) {
        eb_cursor c;
        eb_cursor_seek(&kept, &c, i);
        eb_store_int(y->dtype, eb_data(y, bases), c.offset[1],
                     best_of(x, eb_data(x, bases), c.offset[0], size, step, sign));
    }
    return EB_OK;
}

static eb_status run_argmax(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_arg(node, bases, begin, end, 1);
}
static eb_status run_argmin(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    return run_arg(node, bases, begin, end, -1);
}
const eb_kernel any_argmax__generic_reference = {plan_arg, run_argmax};
const eb_kernel any_argmin__generic_reference = {plan_arg, run_argmin};

/* --- cumsum, cumprod ---------------------------------------------------------------------------------------------- */

static eb_status run_running(const eb_node *node, void *const *bases, int64_t begin, int64_t end, reduction r) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    int axis = (int)node->ints[0], is_real = eb_is_real(x->dtype);
    int64_t size = x->rank ? x->shape[axis] : 1, step = x->rank ? x->stride[axis] : 0, y_step = x->rank ? y->stride[axis] : 0;
    eb_loop kept, reduced;
    split(node, x->rank ? (int64_t)1 << axis : 0, 1, &kept, &reduced);
    for (int64_t i = eb_piece(kept.count, node->tiles, begin); i < eb_piece(kept.count, node->tiles, end); i++) {
        eb_cursor c;
        eb_cursor_seek(&kept, &c, i);
        sum_of a = {r.real_start, r.whole_start};
        for (int64_t j = 0; j < size; j++) {
            int64_t at = c.offset[0] + j * step;
            if (is_real)
                a.real = r.real(a.real, eb_load_real(x->dtype, eb_data(x, bases), at));
            else
                a.whole = r.whole(a.whole, eb_load_int(x->dtype, eb_data(x, bases), at));
            eb_store_any(y->dtype, eb_data(y, bases), c.offset[1] + j * y_step, is_real, a.real, a.whole);
        }
    }
    return EB_OK;
}

#define RUNNING(op, ...)                                                                                           \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_running(n, bases, begin, end, (reduction){__VA_ARGS__});                                        \
    }                                                                                                              \
    const eb_kernel any_##op##__generic_reference = {plan_arg, run_##op};
RUNNING(cumsum, 0, 0, sum_real, sum_whole)
RUNNING(cumprod, 1, 1, prod_real, prod_whole)
