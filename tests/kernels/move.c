/* copy, concat and embedding: every layout and element size; indices out of range. */
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

void test_move(void) {
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
}
