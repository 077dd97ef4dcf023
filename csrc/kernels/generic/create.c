/* full and arange of any dtype, and the triangles of a matrix: a dense result, written once. */
#include <string.h>

#include "../../engine.h"
#include "../../iterate.h"
#include "../../ops.h"
#include "../../ref/element.h"

enum { TILE_BYTES = 1 << 16 };

static int64_t tile_elements(const eb_tensor *y) { return TILE_BYTES / eb_element_size(y->dtype); }

static eb_status plan(eb_node *node) {
    const eb_tensor *y = eb_output(node);
    if (!eb_is_dense(y)) return EB_NOT_APPLICABLE;
    node->tiles = eb_ceil_div(eb_size(y), tile_elements(y));
    return EB_OK;
}

static eb_status run_full(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *y = eb_output(node);
    int64_t size = eb_element_size(y->dtype), first = begin * tile_elements(y) * size;
    int64_t bytes = eb_min(eb_size(y) * size, end * tile_elements(y) * size) - first;
    char *to = (char *)eb_data(y, bases) + first;
    if (bytes <= 0) return EB_OK;
    eb_store_any(y->dtype, to, 0, 1, node->reals[EB_REAL_FULL_VALUE], 0);
    /* Copies of the beginning of the tile, at most a quarter of a tile each: what they read stays in the nearest cache. */
    for (int64_t done = size; done < bytes;) {
        int64_t more = eb_min(eb_min(done, TILE_BYTES / 4), bytes - done);
        memcpy(to + done, to, (size_t)more);
        done += more;
    }
    return EB_OK;
}

/* Elements [first, last) of an arange. A constant `dtype` makes the loop one of plain stores. */
static inline void count(int32_t dtype, void *y, double start, double step, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) eb_store_any(dtype, y, i, 1, start + step * (double)i, 0);
}

/* The same for integers in steps of integers, which add integers, several at once, and convert nothing. */
static void count_i64(int64_t *y, int64_t start, int64_t step, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) y[i] = start + step * i;
}

static void count_i32(int32_t *y, int32_t start, int32_t step, int64_t first, int64_t last) {
    for (int64_t i = first; i < last; i++) y[i] = (int32_t)(start + step * i);
}

/* Whether `value` is an integer of the dtype, small enough that a double holds its neighbours as well. */
static int is_integer(double value, int32_t dtype) {
    const double most = dtype == EB_I64 ? 9007199254740992.0 /* 2^53 */ : dtype == EB_I32 ? INT32_MAX : -1;
    return value >= -most && value <= most && (double)(int64_t)value == value;
}

static eb_status run_arange(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *t = eb_output(node);
    int64_t first = begin * tile_elements(t), last = eb_min(eb_size(t), end * tile_elements(t));
    double start = node->reals[EB_REAL_ARANGE_START], step = node->reals[EB_REAL_ARANGE_STEP];
    void *y = eb_data(t, bases);
    int whole = is_integer(start, t->dtype) && is_integer(step, t->dtype);
    whole = whole && is_integer(start + step * (double)last, t->dtype);
    switch (t->dtype) {
    case EB_F32: count(EB_F32, y, start, step, first, last); break;
    case EB_F64: count(EB_F64, y, start, step, first, last); break;
    case EB_I64:
        if (whole) count_i64(y, (int64_t)start, (int64_t)step, first, last);
        else count(EB_I64, y, start, step, first, last);
        break;
    case EB_I32:
        if (whole) count_i32(y, (int32_t)start, (int32_t)step, first, last);
        else count(EB_I32, y, start, step, first, last);
        break;
    default: count(t->dtype, y, start, step, first, last);
    }
    return EB_OK;
}

const eb_kernel any_full__generic_rows = {plan, run_full};
const eb_kernel any_arange__generic_rows = {plan, run_arange};

/* --- tril and triu: of each row one run is copied, and one or two are cleared ----------------------------------------- */

static int64_t rows_a_tile(const eb_tensor *y) {
    return eb_max(1, TILE_BYTES / eb_max(1, y->shape[y->rank - 1] * eb_element_size(y->dtype)));
}

static eb_status plan_triangle(eb_node *node) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    if (x->dtype != y->dtype || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (x->shape[x->rank - 1] > 1 && x->stride[x->rank - 1] != 1) return EB_NEEDS_DENSE;
    if (eb_size(y)) node->tiles = eb_ceil_div(eb_size(y) / y->shape[y->rank - 1], rows_a_tile(y));
    return EB_OK;
}

static void run_triangle(const eb_node *node, void *const *bases, int64_t begin, int64_t end, int lower) {
    const eb_tensor *x = eb_input(node, 0), *y = eb_output(node);
    const int64_t size = eb_element_size(y->dtype), n = y->shape[y->rank - 1], rows = y->shape[y->rank - 2];
    const int64_t last = eb_min(eb_size(y) / n, end * rows_a_tile(y)), diagonal = eb_max(-rows, eb_min(n, node->ints[0]));
    const eb_loop loop = eb_loop_axes(x, 0, x->rank - 1);
    eb_cursor c;
    begin *= rows_a_tile(y);
    eb_cursor_seek(&loop, &c, begin);
    for (int64_t i = begin; i < last; i++) {
        const char *from = (const char *)eb_data(x, bases) + c.offset[0] * size;
        char *to = (char *)eb_data(y, bases) + i * n * size;
        const int64_t cut = eb_max(0, eb_min(n, i % rows + diagonal + lower)); /* of the part on the left */
        const int64_t first = lower ? 0 : cut * size, kept = (lower ? cut : n - cut) * size;
        memset(to + (lower ? kept : 0), 0, (size_t)(n * size - kept));
        if (from != to) memcpy(to + first, from + first, (size_t)kept); /* else in place */
        eb_cursor_advance(&loop, &c, 1);
    }
}

static eb_status run_tril(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    run_triangle(node, bases, begin, end, 1);
    return EB_OK;
}

static eb_status run_triu(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    run_triangle(node, bases, begin, end, 0);
    return EB_OK;
}

const eb_kernel any_tril__generic_rows = {plan_triangle, run_tril};
const eb_kernel any_triu__generic_rows = {plan_triangle, run_triu};
