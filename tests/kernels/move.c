/* copy, concat, what reads and writes at positions, and full and arange: every layout and element size; indices out of range. */
#include <math.h>
#include <stdio.h>

#include "iterate.h"
#include "suite.h"

void make_copy(test_case *c, eb_dtype dtype, layout how, int rank, const int64_t *shape) {
    case_begin(c, "copy", 0, "dtype=%d layout=%d rank=%d first=%ld last=%ld", (int)dtype, (int)how, rank,
               rank ? (long)shape[0] : 1, rank ? (long)shape[rank - 1] : 1);
    case_input(c, dtype, how, 100, rank, shape);
    case_output(c, dtype, DENSE, rank, shape);
}

/* x [a, b, c] read as [c, a, b], and as [b, c, a]. */
static void add_permuted(case_visitor *v, eb_dtype dtype, int64_t a, int64_t b, int64_t c, int turn) {
    test_case t;
    int64_t sizes[] = {a, b, c}, strides[] = {b * c, c, 1}, shape[3];
    for (int i = 0; i < 3; i++) shape[i] = sizes[(i + turn) % 3];
    case_begin(&t, "copy", 0, "dtype=%d permuted %ld %ld %ld by %d", (int)dtype, (long)a, (long)b, (long)c, turn);
    eb_tensor *x = case_input(&t, dtype, DENSE, 100, 3, shape);
    for (int i = 0; i < 3; i++) x->stride[i] = strides[(i + turn) % 3];
    case_output(&t, dtype, DENSE, 3, shape);
    visit_case(v, &t);
}

/* The first `kept` of `n` elements at each place, which become lines. */
static void add_part_of_places(case_visitor *v, eb_dtype dtype, int64_t kept, int64_t n) {
    test_case c;
    case_begin(&c, "copy", 0, "dtype=%d %ld of %ld elements of places", (int)dtype, (long)kept, (long)n);
    eb_tensor *x = case_input(&c, dtype, DENSE, 100, SHAPE(n, 40));
    x->shape[0] = kept, x->stride[0] = 1, x->stride[1] = n;
    case_output(&c, dtype, DENSE, SHAPE(kept, 40));
    visit_case(v, &c);
}

static void add_expanded(case_visitor *v) {
    test_case c;
    case_begin(&c, "copy", 0, "expanded along two axes");
    eb_tensor *x = case_input(&c, EB_F32, DENSE, 1, SHAPE(4, 5, 6));
    x->stride[0] = x->stride[1] = 0;
    case_output(&c, EB_F32, DENSE, SHAPE(4, 5, 6));
    visit_case(v, &c);
    case_begin(&c, "copy", 0, "a transposed matrix into a dense value of another shape");
    case_input(&c, EB_F32, SWAPPED, 1, SHAPE(3, 10, 6));
    case_output(&c, EB_F32, DENSE, SHAPE(30, 6));
    visit_case(v, &c);
}

/* The last axis repeats each element `n` times, or the one in front of it does. */
static void add_repeated(case_visitor *v, eb_dtype dtype, int64_t n, int is_last) {
    test_case c;
    case_begin(&c, "copy", 0, "dtype=%d repeated n=%ld last=%d", (int)dtype, (long)n, is_last);
    eb_tensor *x = case_input(&c, dtype, DENSE, 100, SHAPE(3, is_last ? 300 : n, is_last ? n : 300));
    x->stride[1] = is_last, x->stride[2] = !is_last;
    case_output(&c, dtype, DENSE, SHAPE(3, is_last ? 300 : n, is_last ? n : 300));
    visit_case(v, &c);
}

static void add_concat(case_visitor *v, eb_dtype dtype, int axis, layout how) {
    test_case c;
    case_begin(&c, "concat", 0, "dtype=%d axis=%d layout=%d", (int)dtype, axis, (int)how);
    int64_t shape[] = {5, 7, 33}, joined = 0;
    for (int i = 0; i < 4; i++) {
        shape[axis] = i == 2 ? 0 : 3 + i;
        joined += shape[axis];
        case_input(&c, dtype, how, 100, 3, shape);
    }
    shape[axis] = joined;
    case_output(&c, dtype, DENSE, 3, shape);
    c.node.n_ints = 1;
    c.ints[EB_INT_CONCAT_AXIS] = axis;
    visit_case(v, &c);
}

/* Puts `wrong` somewhere in the index that is input `i`. */
static void spoil_index(test_case *c, int64_t i, int64_t wrong) {
    int64_t count = c->bytes[i] / eb_element_size(c->operands[i].dtype);
    if (c->operands[i].dtype == EB_I64)
        ((int64_t *)c->data[i])[count * 2 / 3] = wrong;
    else
        ((int32_t *)c->data[i])[count * 2 / 3] = (int32_t)wrong;
}

static void add_embedding(case_visitor *v, eb_dtype dtype, eb_dtype id_dtype, int64_t wrong) {
    test_case c;
    case_begin(&c, "embedding", 0, "dtype=%d ids=%d wrong=%ld", (int)dtype, (int)id_dtype, (long)wrong);
    case_input(&c, dtype, DENSE, 50, SHAPE(20, 3, 11));
    case_input(&c, id_dtype, DENSE, 20, SHAPE(2, 9));
    case_output(&c, dtype, DENSE, SHAPE(2, 9, 3, 11));
    if (wrong) case_edit(&c, spoil_index, 1, wrong);
    visit_case(v, &c);
}

/* A table stored in an encoding; each element is decoded to the last bit. */
static void add_encoded_embedding(case_visitor *v, const char *encoding, int64_t n, int axis, eb_dtype id_dtype, int64_t wrong) {
    test_case c;
    case_begin(&c, "embedding", 0, "%s n=%ld axis=%d ids=%d wrong=%ld", encoding, (long)n, axis, (int)id_dtype, (long)wrong);
    case_input(&c, EB_F32, DENSE, 1, SHAPE(20, n));
    case_input(&c, id_dtype, DENSE, 20, SHAPE(2, 9));
    case_encode(&c, EB_IN_EMBEDDING_TABLE, encoding, axis);
    case_output(&c, EB_F32, DENSE, SHAPE(2, 9, n));
    if (wrong) case_edit(&c, spoil_index, 1, wrong);
    visit_case(v, &c);
}

static void add_encoded_embeddings(case_visitor *v) {
    static const int64_t widths[] = {1, 15, 16, 33, 256, 20000};
    for (int32_t e = 1; e < eb_encoding_count(); e++) {
        const eb_encoding how = eb_encoding_describe(e);
        const int is_grouped = how.per == EB_PER_GROUP;
        for (int i = is_grouped ? 4 : 0; i < (is_grouped ? 5 : 6); i++)
            add_encoded_embedding(v, how.name, widths[i], is_grouped, i % 2 ? EB_I32 : EB_I64, 0);
        if (!is_grouped) add_encoded_embedding(v, how.name, 250, 1, EB_I64, 0);
        for (int64_t wrong = -1; wrong <= 20; wrong += 21) add_encoded_embedding(v, how.name, 256, is_grouped, EB_I64, wrong);
    }
}

static void add_index_select(case_visitor *v, eb_dtype dtype, eb_dtype index, int axis, layout how, int64_t n, int64_t wrong) {
    test_case c;
    case_begin(&c, "index_select", 0, "dtype=%d axis=%d layout=%d n=%ld wrong=%ld", (int)dtype, axis, (int)how, (long)n, (long)wrong);
    int64_t shape[] = {5, 7, n};
    case_input(&c, dtype, how, 50, 3, shape);
    case_input(&c, index, DENSE, (double)shape[axis], SHAPE(9));
    if (wrong) case_edit(&c, spoil_index, 1, wrong);
    shape[axis] = 9;
    case_output(&c, dtype, DENSE, 3, shape);
    c.node.n_ints = 1;
    c.ints[EB_INT_INDEX_SELECT_AXIS] = axis;
    visit_case(v, &c);
}

/* `expanded`: one position for the whole last axis. */
static void add_gather(case_visitor *v, eb_dtype dtype, int axis, layout how, int expanded, int64_t wrong) {
    test_case c;
    case_begin(&c, "gather", 0, "dtype=%d axis=%d layout=%d expanded=%d wrong=%ld", (int)dtype, axis, (int)how, expanded, (long)wrong);
    int64_t shape[] = {5, 7, 33};
    case_input(&c, dtype, how, 50, 3, shape);
    eb_tensor *index = case_input(&c, EB_I64, how, (double)shape[axis], SHAPE(axis == 0 ? 8 : 4, axis == 1 ? 9 : 6, 31));
    if (expanded) index->stride[2] = 0;
    if (wrong) case_edit(&c, spoil_index, 1, wrong);
    case_output(&c, dtype, DENSE, 3, index->shape);
    c.node.n_ints = 1;
    c.ints[EB_INT_GATHER_AXIS] = axis;
    visit_case(v, &c);
}

/* Every second index counts from the end of its axis. */
static void count_from_end(test_case *c, int64_t i, int64_t size) {
    for (int64_t n = 0; n < c->bytes[i] / 8; n += 2) ((int64_t *)c->data[i])[n] -= size;
}

/* x [4, 6, 5, n] at two positions of `axes`, which broadcast from [3, 1] and [1, 2]; half of them count from the end. */
static void add_index(case_visitor *v, eb_dtype dtype, int axes, layout how, int64_t n, int64_t wrong) {
    test_case c;
    case_begin(&c, "index", 0, "dtype=%d axes=%d layout=%d n=%ld wrong=%ld", (int)dtype, axes, (int)how, (long)n, (long)wrong);
    int64_t shape[] = {4, 6, 5, n}, result[4] = {0}, first = __builtin_ctz((unsigned)axes);
    case_input(&c, dtype, how, 50, 4, shape);
    int front = axes >> first == 3 ? (int)first : 0;
    for (int axis = 0, kept = 0; axis < 4; axis++)
        if (axes >> axis & 1) {
            int is_first = c.node.n_inputs == 1;
            case_input(&c, EB_I64, DENSE, (double)shape[axis], SHAPE(is_first ? 3 : 1, is_first ? 1 : 2));
            case_edit(&c, count_from_end, c.node.n_inputs - 1, shape[axis]);
        } else {
            result[kept < front ? kept : kept + 2] = shape[axis];
            kept++;
        }
    result[front] = 3, result[front + 1] = 2;
    if (wrong) case_edit(&c, spoil_index, 2, wrong);
    case_output(&c, dtype, DENSE, 4, result);
    c.node.n_ints = 1;
    c.ints[EB_INT_INDEX_AXES] = axes;
    visit_case(v, &c);
}

/* The last position of four, once counted from the end. */
static void repeat_position(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    int64_t *position = c->data[2];
    position[0] = -1, position[2] = 3;
}

/* Values put into x [4, 6, n], or over it (`in_place`), at positions of its first axis or two; one is there twice. */
static void add_index_put(case_visitor *v, eb_dtype dtype, int axes, layout how, int64_t n, int in_place, int adds,
                          int64_t wrong) {
    test_case c;
    case_begin(&c, "index_put", 0, "dtype=%d axes=%d layout=%d n=%ld adds=%d wrong=%ld", (int)dtype, axes, (int)how, (long)n,
               adds, (long)wrong);
    case_input(&c, dtype, how, 50, 3, (int64_t[]){4, 6, n});
    if (axes == 1)
        case_input(&c, dtype, how, 50, SHAPE(5, 6, n));
    else
        case_input(&c, dtype, how, 50, SHAPE(3, 2, n));
    if (how == DENSE && n > 1 && axes == 3) { /* rows of the values in another order, as heads of a token are */
        c.operands[1].stride[0] = n, c.operands[1].stride[1] = 3 * n;
    }
    case_input(&c, EB_I64, DENSE, 4, SHAPE(axes == 1 ? 5 : 3, 1));
    if (axes == 1) c.operands[2].rank = 1;
    if (axes == 3) case_input(&c, EB_I64, DENSE, 6, SHAPE(2));
    case_edit(&c, repeat_position, 0, 0);
    if (wrong) case_edit(&c, spoil_index, 2, wrong);
    case_output(&c, dtype, DENSE, SHAPE(4, 6, n));
    c.node.n_ints = 2;
    c.ints[EB_INT_INDEX_PUT_AXES] = axes, c.ints[EB_INT_INDEX_PUT_ACCUMULATE] = adds;
    if (in_place) c.in_place = 0;
    visit_case(v, &c);
}

/* Values of `rank` axes, broadcast, put into x [4, 6, 5, n] at positions of `axes`, which broadcast from [9, 1] and [1, 2]:
 * some are there several times, half of them count from the end. */
static void add_index_put_block(case_visitor *v, eb_dtype dtype, eb_dtype index, int axes, int rank, int64_t n, int adds,
                                int64_t wrong) {
    test_case c;
    case_begin(&c, "index_put", 0, "block dtype=%d index=%d axes=%d rank=%d n=%ld adds=%d wrong=%ld", (int)dtype, (int)index,
               axes, rank, (long)n, adds, (long)wrong);
    int64_t shape[] = {4, 6, 5, n}, result[5] = {0}, first = __builtin_ctz((unsigned)axes);
    const int chosen = __builtin_popcount((unsigned)axes), is_adjacent = axes >> first == (1 << chosen) - 1;
    const int front = is_adjacent ? (int)first : 0, whole = 4 - chosen + 2;
    for (int axis = 0, kept = 0; axis < 4; axis++)
        if (!(axes >> axis & 1)) result[kept < front ? kept : kept + 2] = shape[axis], kept++;
    result[front] = 9, result[front + 1] = 2;
    const double scale = dtype == EB_BOOL ? 2 : 50;
    case_input(&c, dtype, DENSE, scale, 4, shape);
    case_input(&c, dtype, rank % 2 ? SWAPPED : DENSE, scale, rank, result + whole - rank);
    for (int axis = 0, i = 0; axis < 4; axis++)
        if (axes >> axis & 1) {
            case_input(&c, index, DENSE, (double)shape[axis], SHAPE(i != 1 ? 9 : 1, i == 0 ? 1 : 2));
            if (index == EB_I64 && i < 2) case_edit(&c, count_from_end, c.node.n_inputs - 1, shape[axis]);
            i++;
        }
    if (wrong) case_edit(&c, spoil_index, 2, wrong);
    case_output(&c, dtype, DENSE, 4, shape);
    c.node.n_ints = 2;
    c.ints[EB_INT_INDEX_PUT_AXES] = axes, c.ints[EB_INT_INDEX_PUT_ACCUMULATE] = adds;
    visit_case(v, &c);
}

enum { OWN, SHARED, SHARED_I32 }; /* an index for each element, or one for all elements behind the axis */

/* Positions drawn at random along an axis of x [n, 7, 33], some of them several times. */
static void add_scatter(case_visitor *v, eb_dtype dtype, int64_t n, int axis, layout how, int indices, int in_place,
                        int reduce, int64_t wrong) {
    test_case c;
    case_begin(&c, "scatter", 0, "dtype=%d n=%ld axis=%d layout=%d indices=%d reduce=%d wrong=%ld", (int)dtype, (long)n, axis,
               (int)how, indices, reduce, (long)wrong);
    int64_t shape[] = {n, 7, 33};
    case_input(&c, dtype, how, 50, 3, shape);
    /* An index moves rows only if it is as large as x on the axes behind. */
    const int is_shared = indices != OWN;
    eb_tensor *index = case_input(&c, indices == SHARED_I32 ? EB_I32 : EB_I64, how, (double)shape[axis],
                                  SHAPE(axis == 0 ? n + 3 : n - 1, axis == 1 ? 9 : is_shared ? 7 : 6, is_shared ? 33 : 31));
    for (int a = axis + 1; is_shared && a < 3; a++) index->stride[a] = 0;
    if (wrong) case_edit(&c, spoil_index, 1, wrong);
    case_input(&c, dtype, how, 50, SHAPE(axis == 0 ? n + 4 : n, axis == 1 ? 9 : 7, is_shared ? 33 : 34));
    case_output(&c, dtype, DENSE, 3, shape);
    c.node.n_ints = 2;
    c.ints[EB_INT_SCATTER_AXIS] = axis, c.ints[EB_INT_SCATTER_REDUCE] = reduce;
    if (in_place) c.in_place = 0;
    visit_case(v, &c);
}

static const eb_dtype index_dtypes[] = {EB_F32, EB_F64, EB_BF16, EB_U8};
static const eb_dtype copy_dtypes[] = {EB_F32, EB_F64, EB_BF16, EB_I64, EB_U8, EB_BOOL};
enum { INDEX_DTYPES = 4, COPY_DTYPES = 6 };

void cases_copy(case_visitor *v) {
    test_case c;
    for (int d = 0; d < COPY_DTYPES; d++) {
        for (int how = DENSE; how <= SCATTERED; how++) {
            make_copy(&c, copy_dtypes[d], (layout)how, SHAPE(3, 17, 33));
            visit_case(v, &c);
            make_copy(&c, copy_dtypes[d], (layout)how, SHAPE(150, 257));
            visit_case(v, &c);
            make_copy(&c, copy_dtypes[d], (layout)how, SHAPE(64 * 1700));
            visit_case(v, &c);
        }
        for (int turn = 1; turn < 3; turn++) {
            add_permuted(v, copy_dtypes[d], 3, 70, 40, turn);
            add_permuted(v, copy_dtypes[d], 33, 1, 17, turn);
            add_permuted(v, copy_dtypes[d], 4, 0, 5, turn);
            add_permuted(v, copy_dtypes[d], 2, 3, 900, turn); /* few long lines */
            add_permuted(v, copy_dtypes[d], 1, 129, 1100, turn); /* more than a tile, and edges of cache lines */
        }
        for (int64_t n = 2; n <= 17; n++) { /* a short axis that becomes the outer or the inner one */
            add_permuted(v, copy_dtypes[d], 1, n % 2 ? 32 : 53, n, 2);
            add_permuted(v, copy_dtypes[d], n, 1, n % 2 ? 53 : 32, 1);
            add_part_of_places(v, copy_dtypes[d], n - 1, n);
        }
        for (int last = 0; last < 2; last++) {
            add_repeated(v, copy_dtypes[d], 2, last);
            add_repeated(v, copy_dtypes[d], 65, last);
        }
    }
    make_copy(&c, EB_F32, DENSE, SCALAR);
    visit_case(v, &c);
    add_expanded(v);
    for (int i = 0; i < STREAMS; i++) {
        make_copy(&c, EB_F32, DENSE, 2, streams[i]);
        case_timed(&c, 0, "%ld x %ld", (long)streams[i][0], (long)streams[i][1]);
        visit_case(v, &c);
    }
}

void cases_concat(case_visitor *v) {
    for (int d = 0; d < COPY_DTYPES; d++)
        for (int how = DENSE; how <= SCATTERED; how++)
            for (int axis = 0; axis < 3; axis++) add_concat(v, copy_dtypes[d], axis, (layout)how);
}

static void add_flip(case_visitor *v, eb_dtype dtype, layout how, int axes, int64_t b, int64_t n) {
    test_case c;
    case_begin(&c, "flip", 0, "dtype=%d layout=%d axes=%d b=%ld n=%ld", (int)dtype, (int)how, axes, (long)b, (long)n);
    case_input(&c, dtype, how, 100, SHAPE(3, b, n));
    case_output(&c, dtype, DENSE, SHAPE(3, b, n));
    c.node.n_ints = 1;
    c.ints[EB_INT_FLIP_AXES] = axes;
    visit_case(v, &c);
}

void cases_flip(case_visitor *v) {
    for (int d = 0; d < COPY_DTYPES; d++)
        for (int how = DENSE; how <= SCATTERED; how++)
            for (int axes = 1; axes < 8; axes++) {
                add_flip(v, copy_dtypes[d], (layout)how, axes, 70, 67);
                add_flip(v, copy_dtypes[d], (layout)how, axes, 300, 3);
            }
    add_flip(v, EB_F32, DENSE, 7, 1, 1);
    add_flip(v, EB_F32, DENSE, 7, 0, 5);
}

/* `in_place`: the result takes over the memory of x. */
static void add_triangle(case_visitor *v, eb_dtype dtype, layout how, int64_t rows, int64_t n, int64_t diagonal, int in_place) {
    test_case c;
    case_begin(&c, v->op, 0, "dtype=%d layout=%d rows=%ld n=%ld diagonal=%ld", (int)dtype, (int)how, (long)rows, (long)n, (long)diagonal);
    case_input(&c, dtype, how, 100, SHAPE(2, rows, n));
    case_output(&c, dtype, DENSE, SHAPE(2, rows, n));
    c.node.n_ints = 1;
    c.ints[EB_INT_TRIL_DIAGONAL] = diagonal;
    if (in_place) c.in_place = 0;
    visit_case(v, &c);
}

void cases_triangle(case_visitor *v) {
    for (int d = 0; d < COPY_DTYPES; d++)
        for (int how = DENSE; how <= SCATTERED; how++)
            for (int64_t diagonal = -2; diagonal < 3; diagonal++) {
                add_triangle(v, copy_dtypes[d], (layout)how, 5, 9, diagonal, 0);
                add_triangle(v, copy_dtypes[d], (layout)how, 70, 33, 17 * diagonal, how == DENSE);
            }
    add_triangle(v, EB_F32, DENSE, 300, 700, 100, 0);
    add_triangle(v, EB_F32, DENSE, 4, 0, 0, 0);
    add_triangle(v, EB_F32, DENSE, 0, 4, 0, 0);
}

/* full and arange: no input; of an arange, `step` is the second number. */
static void make_created(test_case *c, const char *op, eb_dtype dtype, int64_t n, double first, double step) {
    case_begin(c, op, 0, "dtype=%d n=%ld first=%g step=%g", (int)dtype, (long)n, first, step);
    case_output(c, dtype, DENSE, SHAPE(n));
    c->node.n_reals = IS_ONE_OF(op, "arange") ? 2 : 1;
    c->reals[0] = first;
    c->reals[1] = step;
}

/* Every dtype; sizes around a tile of 64 KiB; values that a dtype rounds, cuts or cannot hold, and NaN. Some counts leave
 * the integers of int32, or those that a double holds, between two tiles. */
static void add_created(case_visitor *v) {
    const int is_arange = IS_ONE_OF(v->op, "arange");
    static const double values[][2] = {{0, 1}, {-3, 0.1}, {1e30, -1e28}, {NAN, 1}, {70000, 3},
                                     {5, -2},  {2147470000, 1}, {9007199254730000, 1}, {-9007199254730000, -3}};
    test_case c;
    for (int dtype = EB_F32; dtype <= (is_arange ? EB_U8 : EB_BOOL); dtype++) {
        int64_t tile = (1 << 16) / eb_element_size(dtype);
        const int64_t sizes[] = {0, 1, 2, 7, 1000, tile - 1, tile, tile + 1, 2 * tile, 3 * tile + 5};
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
                make_created(&c, v->op, (eb_dtype)dtype, sizes[s], values[i][0], values[i][1]);
                visit_case(v, &c);
            }
    }
    for (int i = 0; i < STREAMS; i++) {
        make_created(&c, v->op, EB_I64, streams[i][0] * streams[i][1], 1, 1);
        case_timed(&c, 0, "%ld of int64", (long)(streams[i][0] * streams[i][1]));
        visit_case(v, &c);
    }
}

void cases_full(case_visitor *v) { add_created(v); }
void cases_arange(case_visitor *v) { add_created(v); }

/* Rows of a table at 2048 positions, by each op that can; and single elements. */
static void time_table(case_visitor *v, int64_t axis, const char *what) {
    const int is_gather = IS_ONE_OF(v->op, "gather"), by_elements = what[0] != 0;
    test_case c;
    case_begin(&c, v->op, 0, "of a table");
    case_input(&c, EB_F32, DENSE, 1, SHAPE(8192, 768));
    if (is_gather)
        case_input(&c, EB_I64, DENSE, 8192, SHAPE(2048, 768));
    else
        case_input(&c, EB_I64, DENSE, 8192, SHAPE(2048));
    if (is_gather && !by_elements) c.operands[1].stride[0] = 1, c.operands[1].stride[1] = 0; /* expanded */
    case_output(&c, EB_F32, DENSE, SHAPE(2048, 768));
    c.node.n_ints = !IS_ONE_OF(v->op, "embedding");
    c.ints[0] = axis;
    case_timed(&c, 0, "2048 of 8192 x 768%s", what);
    visit_case(v, &c);
}

void cases_embedding(case_visitor *v) {
    static const int64_t far[] = {INT64_MIN, INT64_MAX, (int64_t)1 << 62};
    for (int d = 0; d < COPY_DTYPES; d++) {
        add_embedding(v, copy_dtypes[d], EB_I64, 0);
        add_embedding(v, copy_dtypes[d], EB_I32, 0);
    }
    add_embedding(v, EB_F32, EB_I64, -1);
    add_embedding(v, EB_F32, EB_I64, 20);
    add_embedding(v, EB_F32, EB_I32, (int64_t)1 << 30);
    for (int i = 0; i < 3; i++) add_embedding(v, EB_F32, EB_I64, far[i]); /* by more than a product of offsets holds */
    time_table(v, 0, "");
    add_encoded_embeddings(v);
}

void cases_index_select(case_visitor *v) {
    for (int d = 0; d < INDEX_DTYPES; d++)
        for (int how = DENSE; how <= SCATTERED; how++)
            for (int axis = 0; axis < 3; axis++)
                for (int64_t n = 0; n < 40; n += 13) /* 0, 13, 26, 39; the empty axis itself cannot be indexed */
                    if (n || axis < 2) add_index_select(v, index_dtypes[d], d % 2 ? EB_I32 : EB_I64, axis, (layout)how, n, 0);
    add_index_select(v, EB_F32, EB_I64, 0, DENSE, 30000, 0); /* several tiles; rows longer than a tile */
    add_index_select(v, EB_F32, EB_I64, 1, DENSE, 30000, 0);
    add_index_select(v, EB_F32, EB_I64, 1, DENSE, 30, 7);
    add_index_select(v, EB_F32, EB_I32, 1, DENSE, 30, -1);
    add_index_select(v, EB_F32, EB_I64, 2, DENSE, 30, 30);
    time_table(v, 0, "");
}

void cases_gather(case_visitor *v) {
    for (int d = 0; d < INDEX_DTYPES; d++)
        for (int how = DENSE; how <= SCATTERED; how++)
            for (int axis = 0; axis < 3; axis++)
                for (int expanded = 0; expanded < 2; expanded++) add_gather(v, index_dtypes[d], axis, (layout)how, expanded, 0);
    add_gather(v, EB_F32, 1, DENSE, 0, 7);
    add_gather(v, EB_F32, 2, DENSE, 0, -1);
    time_table(v, 0, "");
    time_table(v, 0, " by elements");
}

void cases_index(case_visitor *v) {
    static const int axes[] = {3, 6, 12, 5, 9, 10};
    for (int d = 0; d < INDEX_DTYPES; d++)
        for (int how = DENSE; how <= SCATTERED; how++)
            for (int i = 0; i < 6; i++) add_index(v, index_dtypes[d], axes[i], (layout)how, 11, 0);
    add_index(v, EB_F32, 3, DENSE, 9000, 0);
    add_index(v, EB_F32, 3, DENSE, 11, 6);
    add_index(v, EB_F32, 12, DENSE, 11, -12);
    time_table(v, 1, ""); /* a mask of axes */
}

/* Rows put into a copy of a cache: 12 heads of 1024 x 64. */
static void time_index_put(case_visitor *v) {
    test_case c;
    case_begin(&c, v->op, 0, "into a cache");
    case_input(&c, EB_F32, DENSE, 1, SHAPE(12, 1024, 64));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(12, 1, 64));
    case_input(&c, EB_I64, DENSE, 12, SHAPE(12, 1));
    case_input(&c, EB_I64, DENSE, 1024, SHAPE(12, 1));
    case_output(&c, EB_F32, DENSE, SHAPE(12, 1024, 64));
    c.node.n_ints = 2;
    c.ints[EB_INT_INDEX_PUT_AXES] = 3;
    case_timed(&c, 0, "12 of 12 x 1024 x 64");
    visit_case(v, &c);
}

void cases_index_put(case_visitor *v) {
    for (int d = 0; d < INDEX_DTYPES; d++)
        for (int axes = 1; axes <= 3; axes += 2)
            for (int64_t n = 0; n < 40; n += 13)
                for (int adds = 0; adds < 2; adds++) {
                    add_index_put(v, index_dtypes[d], axes, DENSE, n, 0, adds, 0);
                    add_index_put(v, index_dtypes[d], axes, DENSE, n, 1, adds, 0);
                    add_index_put(v, index_dtypes[d], axes, SCATTERED, n, 0, adds, 0);
                }
    static const int axes[] = {1, 3, 6, 12, 2, 8, 5, 9, 10, 7, 13};
    for (int dtype = EB_F32; dtype <= EB_BOOL; dtype++)
        for (int i = 0; i < 11; i++)
            for (int adds = 0; adds < 2; adds++) {
                const int rank = 6 - __builtin_popcount((unsigned)axes[i]);
                add_index_put_block(v, (eb_dtype)dtype, i % 2 ? EB_I32 : EB_I64, axes[i], rank, 7, adds, 0);
                if (dtype < EB_F16 && rank > 1) add_index_put_block(v, (eb_dtype)dtype, EB_I64, axes[i], rank - 1 - i % 2, 1, adds, 0);
            }
    for (int adds = 0; adds < 2; adds++) {
        add_index_put(v, EB_F32, 1, DENSE, 13, 0, adds, 4);
        add_index_put(v, EB_F32, 3, DENSE, 13, 0, adds, -5);
        add_index_put(v, EB_F32, 1, DENSE, 3000, 0, adds, 0);                         /* sums are cut into columns */
        add_index_put(v, EB_F32, 1, DENSE, 3000, 0, adds, 4);
        add_index_put_block(v, EB_F32, EB_I64, 1, 3, 2999, adds, 0);
        add_index_put_block(v, EB_I32, EB_I64, 5, 2, 2999, adds, 0);
        add_index_put_block(v, EB_F64, EB_I32, 10, 3, 2999, adds, 0);
        add_index_put_block(v, EB_F64, EB_I32, 4, 0, 2999, adds, 0);
    }
    time_index_put(v);
}

/* A row is put into each of 12 heads of a copied cache. Its elements share one position or have their own. */
static void time_scatter(case_visitor *v, int indices) {
    test_case c;
    case_begin(&c, v->op, 0, "into a cache, indices=%d", indices);
    case_input(&c, EB_F32, DENSE, 1, SHAPE(12, 1024, 64));
    eb_tensor *index = case_input(&c, EB_I64, DENSE, 1024, SHAPE(12, 1, 64));
    if (indices == SHARED) index->stride[2] = 0;
    case_input(&c, EB_F32, DENSE, 1, SHAPE(12, 1, 64));
    case_output(&c, EB_F32, DENSE, SHAPE(12, 1024, 64));
    c.node.n_ints = 2;
    c.ints[EB_INT_SCATTER_AXIS] = 1, c.ints[EB_INT_SCATTER_REDUCE] = EB_SCATTER_REDUCE_NONE;
    case_timed(&c, 0, indices == SHARED ? "rows into 12 x 1024 x 64" : "elements into 12 x 1024 x 64");
    visit_case(v, &c);
}

void cases_scatter(case_visitor *v) {
    for (int d = 0; d < INDEX_DTYPES; d++)
        for (int axis = 0; axis < 3; axis++)
            for (int indices = OWN; indices <= SHARED_I32; indices++) {
                add_scatter(v, index_dtypes[d], 5, axis, DENSE, indices, 0, EB_SCATTER_REDUCE_NONE, 0);
                add_scatter(v, index_dtypes[d], 5, axis, DENSE, indices, 1, EB_SCATTER_REDUCE_NONE, 0);
                add_scatter(v, index_dtypes[d], 5, axis, SCATTERED, indices, 0, EB_SCATTER_REDUCE_NONE, 0);
            }
    for (int dtype = EB_F32; dtype < EB_BOOL; dtype++)
        for (int axis = 0; axis < 3; axis++)
            for (int indices = OWN; indices <= SHARED_I32; indices++)
                for (int reduce = EB_SCATTER_REDUCE_SUM; reduce <= EB_SCATTER_REDUCE_AMIN; reduce++)
                    add_scatter(v, (eb_dtype)dtype, 5, axis, indices ? DENSE : SCATTERED, indices, indices % 2, reduce, 0);
    for (int reduce = EB_SCATTER_REDUCE_NONE; reduce <= EB_SCATTER_REDUCE_AMIN; reduce++)
        for (int axis = 0; axis < 3; axis++) {
            add_scatter(v, EB_F32, 300, axis, DENSE, OWN, 0, reduce, 0); /* several tiles, or sums that are cut into columns */
            add_scatter(v, EB_F32, 300, axis, DENSE, SHARED, 1, reduce, 0);
            for (int64_t wrong = -1; wrong <= 400; wrong += 401) add_scatter(v, EB_F32, 5, axis, DENSE, axis % 2, 0, reduce, wrong);
        }
    time_scatter(v, OWN);
    time_scatter(v, SHARED);
}
