/* copy, concat and what reads at positions: every layout and element size; indices out of range. */
#include <stdio.h>

#include "suite.h"

void make_copy(test_case *c, eb_dtype dtype, layout how, int rank, const int64_t *shape) {
    case_begin(c, "copy", 0, "dtype=%d layout=%d rank=%d first=%ld last=%ld", (int)dtype, (int)how, rank,
               rank ? (long)shape[0] : 1, rank ? (long)shape[rank - 1] : 1);
    case_input(c, dtype, how, 100, rank, shape);
    case_output(c, dtype, DENSE, rank, shape);
}

/* x [a, b, c] read as [c, a, b], and as [b, c, a]. */
static void check_permuted(eb_dtype dtype, int64_t a, int64_t b, int64_t c, int turn) {
    test_case t;
    int64_t sizes[] = {a, b, c}, strides[] = {b * c, c, 1}, shape[3];
    for (int i = 0; i < 3; i++) shape[i] = sizes[(i + turn) % 3];
    case_begin(&t, "copy", 0, "dtype=%d permuted %ld %ld %ld by %d", (int)dtype, (long)a, (long)b, (long)c, turn);
    eb_tensor *x = case_input(&t, dtype, DENSE, 100, 3, shape);
    for (int i = 0; i < 3; i++) x->stride[i] = strides[(i + turn) % 3];
    case_output(&t, dtype, DENSE, 3, shape);
    case_check(&t);
}

static void check_expanded(void) {
    test_case c;
    case_begin(&c, "copy", 0, "expanded along two axes");
    eb_tensor *x = case_input(&c, EB_F32, DENSE, 1, SHAPE(4, 5, 6));
    x->stride[0] = x->stride[1] = 0;
    case_output(&c, EB_F32, DENSE, SHAPE(4, 5, 6));
    case_check(&c);
    case_begin(&c, "copy", 0, "a transposed matrix into a dense value of another shape");
    case_input(&c, EB_F32, SWAPPED, 1, SHAPE(3, 10, 6));
    case_output(&c, EB_F32, DENSE, SHAPE(30, 6));
    case_check(&c);
}

static void check_concat(eb_dtype dtype, int axis, layout how) {
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
    case_check(&c);
}

static void check_embedding(eb_dtype dtype, eb_dtype id_dtype, int64_t wrong) {
    test_case c;
    case_begin(&c, "embedding", 0, "dtype=%d ids=%d wrong=%ld", (int)dtype, (int)id_dtype, (long)wrong);
    case_input(&c, dtype, DENSE, 50, SHAPE(20, 3, 11));
    case_input(&c, id_dtype, DENSE, 20, SHAPE(2, 9));
    case_output(&c, dtype, DENSE, SHAPE(2, 9, 3, 11));
    if (wrong && id_dtype == EB_I64) ((int64_t *)c.data[1])[13] = wrong;
    if (wrong && id_dtype == EB_I32) ((int32_t *)c.data[1])[13] = (int32_t)wrong;
    case_check(&c);
}

/* Put `wrong` somewhere in index `i`, unless it is 0. */
static void spoil(test_case *c, int i, int64_t wrong) {
    int64_t count = c->bytes[i] / dtype_size(c->operands[i].dtype);
    if (wrong && c->operands[i].dtype == EB_I64) ((int64_t *)c->data[i])[count * 2 / 3] = wrong;
    if (wrong && c->operands[i].dtype == EB_I32) ((int32_t *)c->data[i])[count * 2 / 3] = (int32_t)wrong;
}

static void check_index_select(eb_dtype dtype, eb_dtype index, int axis, layout how, int64_t n, int64_t wrong) {
    test_case c;
    case_begin(&c, "index_select", 0, "dtype=%d axis=%d layout=%d n=%ld wrong=%ld", (int)dtype, axis, (int)how, (long)n, (long)wrong);
    int64_t shape[] = {5, 7, n};
    case_input(&c, dtype, how, 50, 3, shape);
    case_input(&c, index, DENSE, (double)shape[axis], SHAPE(9));
    spoil(&c, 1, wrong);
    shape[axis] = 9;
    case_output(&c, dtype, DENSE, 3, shape);
    c.node.n_ints = 1;
    c.ints[EB_INT_INDEX_SELECT_AXIS] = axis;
    case_check(&c);
}

/* `expanded`: one position for the whole last axis. */
static void check_gather(eb_dtype dtype, int axis, layout how, int expanded, int64_t wrong) {
    test_case c;
    case_begin(&c, "gather", 0, "dtype=%d axis=%d layout=%d expanded=%d wrong=%ld", (int)dtype, axis, (int)how, expanded, (long)wrong);
    int64_t shape[] = {5, 7, 33};
    case_input(&c, dtype, how, 50, 3, shape);
    eb_tensor *index = case_input(&c, EB_I64, how, (double)shape[axis], SHAPE(axis == 0 ? 8 : 4, axis == 1 ? 9 : 6, 31));
    if (expanded) index->stride[2] = 0;
    spoil(&c, 1, wrong);
    case_output(&c, dtype, DENSE, 3, index->shape);
    c.node.n_ints = 1;
    c.ints[EB_INT_GATHER_AXIS] = axis;
    case_check(&c);
}

/* x [4, 6, 5, n] at two positions of `axes`, which broadcast from [3, 1] and [1, 2]; half of them count from the end. */
static void check_index(eb_dtype dtype, int axes, layout how, int64_t n, int64_t wrong) {
    test_case c;
    case_begin(&c, "index", 0, "dtype=%d axes=%d layout=%d n=%ld wrong=%ld", (int)dtype, axes, (int)how, (long)n, (long)wrong);
    int64_t shape[] = {4, 6, 5, n}, result[4] = {0}, first = __builtin_ctz((unsigned)axes);
    case_input(&c, dtype, how, 50, 4, shape);
    int front = axes >> first == 3 ? (int)first : 0;
    for (int axis = 0, kept = 0; axis < 4; axis++)
        if (axes >> axis & 1) {
            int is_first = c.node.n_inputs == 1;
            case_input(&c, EB_I64, DENSE, (double)shape[axis], SHAPE(is_first ? 3 : 1, is_first ? 1 : 2));
            int64_t *position = c.data[c.node.n_inputs - 1];
            for (int i = 0; i < (is_first ? 3 : 2); i += 2) position[i] -= shape[axis];
        } else {
            result[kept < front ? kept : kept + 2] = shape[axis];
            kept++;
        }
    result[front] = 3, result[front + 1] = 2;
    spoil(&c, 2, wrong);
    case_output(&c, dtype, DENSE, 4, result);
    c.node.n_ints = 1;
    c.ints[EB_INT_INDEX_AXES] = axes;
    case_check(&c);
}

/* Values put into x [4, 6, n], or over it (`in_place`), at positions of its first axis or two; one is there twice. */
static void check_index_put(eb_dtype dtype, int axes, layout how, int64_t n, int in_place, int64_t wrong) {
    test_case c;
    case_begin(&c, "index_put", 0, "dtype=%d axes=%d layout=%d n=%ld in_place=%d wrong=%ld", (int)dtype, axes, (int)how,
               (long)n, in_place, (long)wrong);
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
    int64_t *position = c.data[2];
    position[0] = -1, position[2] = 3;
    spoil(&c, 2, wrong);
    case_output(&c, dtype, DENSE, SHAPE(4, 6, n));
    c.node.n_ints = 2;
    c.ints[EB_INT_INDEX_PUT_AXES] = axes;
    if (in_place) c.in_place = 0;
    case_check(&c);
}

static void test_index_put(void) {
    static const eb_dtype dtypes[] = {EB_F32, EB_F64, EB_BF16, EB_U8};
    for (int d = 0; d < 4; d++)
        for (int axes = 1; axes <= 3; axes += 2)
            for (int64_t n = 0; n < 40; n += 13) {
                check_index_put(dtypes[d], axes, DENSE, n, 0, 0);
                check_index_put(dtypes[d], axes, DENSE, n, 1, 0);
                check_index_put(dtypes[d], axes, SCATTERED, n, 0, 0);
            }
    check_index_put(EB_F32, 1, DENSE, 13, 0, 4);
    check_index_put(EB_F32, 3, DENSE, 13, 0, -5);
}

static void test_index(void) {
    static const eb_dtype dtypes[] = {EB_F32, EB_F64, EB_BF16, EB_U8};
    for (int d = 0; d < 4; d++)
        for (int how = DENSE; how <= SCATTERED; how++) {
            for (int axis = 0; axis < 3; axis++) {
                for (int64_t n = 0; n < 40; n += 13) /* 0, 13, 26, 39; the empty axis itself cannot be indexed */
                    if (n || axis < 2) check_index_select(dtypes[d], d % 2 ? EB_I32 : EB_I64, axis, (layout)how, n, 0);
                for (int expanded = 0; expanded < 2; expanded++) check_gather(dtypes[d], axis, (layout)how, expanded, 0);
            }
            static const int axes[] = {3, 6, 12, 5, 9, 10};
            for (int i = 0; i < 6; i++) check_index(dtypes[d], axes[i], (layout)how, 11, 0);
        }
    check_index_select(EB_F32, EB_I64, 0, DENSE, 30000, 0); /* several tiles; rows longer than a tile */
    check_index_select(EB_F32, EB_I64, 1, DENSE, 30000, 0);
    check_index(EB_F32, 3, DENSE, 9000, 0);
    check_index_select(EB_F32, EB_I64, 1, DENSE, 30, 7);
    check_index_select(EB_F32, EB_I32, 1, DENSE, 30, -1);
    check_index_select(EB_F32, EB_I64, 2, DENSE, 30, 30);
    check_gather(EB_F32, 1, DENSE, 0, 7);
    check_gather(EB_F32, 2, DENSE, 0, -1);
    check_index(EB_F32, 3, DENSE, 11, 6);
    check_index(EB_F32, 12, DENSE, 11, -12);
}

void test_move(void) {
    test_index_put();
    static const eb_dtype dtypes[] = {EB_F32, EB_F64, EB_BF16, EB_I64, EB_U8, EB_BOOL};
    for (int d = 0; d < 6; d++) {
        for (int how = DENSE; how <= SCATTERED; how++) {
            test_case c;
            make_copy(&c, dtypes[d], (layout)how, SHAPE(3, 17, 33));
            case_check(&c);
            make_copy(&c, dtypes[d], (layout)how, SHAPE(150, 257));
            case_check(&c);
            make_copy(&c, dtypes[d], (layout)how, SHAPE(64 * 1700));
            case_check(&c);
            for (int axis = 0; axis < 3; axis++) check_concat(dtypes[d], axis, (layout)how);
        }
        for (int turn = 1; turn < 3; turn++) {
            check_permuted(dtypes[d], 3, 70, 40, turn);
            check_permuted(dtypes[d], 33, 1, 17, turn);
            check_permuted(dtypes[d], 4, 0, 5, turn);
        }
        check_embedding(dtypes[d], EB_I64, 0);
        check_embedding(dtypes[d], EB_I32, 0);
    }
    test_case c;
    make_copy(&c, EB_F32, DENSE, SCALAR);
    case_check(&c);
    check_expanded();
    check_embedding(EB_F32, EB_I64, -1);
    check_embedding(EB_F32, EB_I64, 20);
    check_embedding(EB_F32, EB_I32, (int64_t)1 << 30);
    test_index();
}
