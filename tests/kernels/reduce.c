/* Reductions, argmax, argmin and cumsum: every set of axes of a tensor of three, both forms, edges, NaN and infinities. */
#include <stdio.h>
#include <string.h>

#include "suite.h"

/* `axes`: a bit mask. The output is that of the op on float or bool. */
void make_reduction(test_case *c, const char *op, int64_t axes, int keepdims, layout how, const int64_t *shape) {
    int is_bool = strcmp(op, "any") == 0 || strcmp(op, "all") == 0, rank = 0;
    int64_t out[3];
    for (int axis = 0; axis < 3; axis++) {
        if (axes >> axis & 1 && !keepdims) continue;
        out[rank++] = axes >> axis & 1 ? 1 : shape[axis];
    }
    /* Both sum in double and round once: 1 ulp, but for var, whose second sum has the rounding of the first. */
    case_begin(c, op, 2e-7, "axes=%ld keepdims=%d layout=%d of %ld x %ld x %ld", (long)axes, keepdims, (int)how,
               (long)shape[0], (long)shape[1], (long)shape[2]);
    case_input(c, is_bool ? EB_BOOL : EB_F32, how, 2, 3, shape);
    case_output(c, is_bool ? EB_BOOL : EB_F32, DENSE, rank, out);
    c->node.n_ints = 2;
    c->ints[0] = axes;
    c->ints[1] = keepdims;
    if (strcmp(op, "var") == 0) c->node.n_reals = 1;
    c->reals[EB_REAL_VAR_CORRECTION] = 1;
}

void make_arg(test_case *c, const char *op, int axis, int keepdims, layout how, const int64_t *shape) {
    int64_t out[3];
    int rank = 0, is_sum = strcmp(op, "cumsum") == 0;
    for (int i = 0; i < 3; i++)
        if (i != axis || keepdims) out[rank++] = i == axis && !is_sum ? 1 : shape[i];
    case_begin(c, op, is_sum ? 2e-7 : 0, "axis=%d keepdims=%d layout=%d of %ld x %ld x %ld", axis, keepdims, (int)how,
               (long)shape[0], (long)shape[1], (long)shape[2]);
    case_input(c, EB_F32, how, 100, 3, shape);
    case_output(c, is_sum ? EB_F32 : EB_I64, DENSE, rank, out);
    c->node.n_ints = 2;
    c->ints[0] = axis;
    c->ints[1] = keepdims;
}

/* Factors near 1 and -1: a product of thousands of others underflows, early or late by its order, and then meets an
 * infinity as 0 or not. */
static void with_factors(test_case *c) {
    float *x = c->data[0];
    for (int64_t i = 0; i < c->bytes[0] / 4; i++) x[i] = x[i] / 8 + (x[i] < 0 ? -1 : 1);
}

/* Equal largest and smallest elements, so that only the first of them is right. */
static void with_ties(test_case *c) {
    for (int64_t i = 0; i < c->bytes[0] / 4; i++) ((float *)c->data[0])[i] = (float)random_below(3);
}

/* Rare ones among zeros, or rare zeros among ones. */
static void with_rare(test_case *c, int common) {
    for (int64_t i = 0; i < c->bytes[0]; i++) ((uint8_t *)c->data[0])[i] = random_below(200) ? (uint8_t)common : !common;
}

static void check_reductions(const int64_t *shape, layout how) {
    static const char *const ops[] = {"sum", "mean", "prod", "var", "amax", "amin", "any", "all"};
    for (int op = 0; op < 8; op++)
        for (int64_t axes = 1; axes < 8; axes++) {
            test_case c;
            make_reduction(&c, ops[op], axes, (int)(axes + op) % 2, how, shape);
            if (op == 2) with_factors(&c);
            if (op >= 6) with_rare(&c, op == 7);
            case_check(&c);
            if (op >= 6 || how != DENSE) continue;
            make_reduction(&c, ops[op], axes, 0, how, shape);
            if (op == 2) with_factors(&c);
            case_specials(&c, 0);
            case_check(&c);
        }
}

static void check_args(const int64_t *shape, layout how) {
    static const char *const ops[] = {"argmax", "argmin", "cumsum"};
    for (int op = 0; op < 3; op++)
        for (int axis = 0; axis < 3; axis++) {
            test_case c;
            int keepdims = op == 2 || axis % 2;
            make_arg(&c, ops[op], axis, keepdims, how, shape);
            case_check(&c);
            make_arg(&c, ops[op], axis, keepdims, how, shape);
            with_ties(&c);
            case_check(&c);
            make_arg(&c, ops[op], axis, keepdims, how, shape);
            case_specials(&c, 0);
            case_check(&c);
        }
}

/* The mean is a thousand times the deviation. */
static void check_large_mean(void) {
    test_case c;
    for (int64_t axes = 1; axes < 8; axes += 3) {
        make_reduction(&c, "var", axes, 0, DENSE, (const int64_t[]){30, 7, 40});
        for (int64_t i = 0; i < c.bytes[0] / 4; i++) ((float *)c.data[0])[i] += 3000;
        case_check(&c);
    }
}

void test_reduce(void) {
    static const int64_t shapes[][3] = {{3, 5, 70}, {2, 9, 16}, {4, 1, 1}, {1, 6, 3}, {2, 37, 33}, {1, 3, 2100}, {3, 1030, 2},
                                        {2, 3, 600}, {0, 3, 4},  {40, 30, 17}};
    for (int i = 0; i < 10; i++)
        for (int how = DENSE; how <= SCATTERED; how++) {
            if (i > 4 && how != DENSE) continue;
            check_reductions(shapes[i], (layout)how);
            check_args(shapes[i], (layout)how);
        }
    check_large_mean();
}
