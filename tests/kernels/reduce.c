/* Reductions, argmax, argmin and cumsum: every set of axes of a tensor of three, both forms, edges, NaN and infinities. */
#include <stdio.h>
#include <string.h>

#include "suite.h"

/* `axes`: a bit mask. The output is that of the op on float or bool. */
static void make_reduction(test_case *c, const char *op, int64_t axes, int keepdims, layout how, const int64_t *shape) {
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

static void make_arg(test_case *c, const char *op, int axis, int keepdims, layout how, const int64_t *shape) {
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
static void put_factors(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    float *x = c->data[0];
    for (int64_t i = 0; i < c->bytes[0] / 4; i++) x[i] = x[i] / 8 + (x[i] < 0 ? -1 : 1);
}

/* Equal largest and smallest elements, so that only the first of them is right. */
static void put_ties(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    for (int64_t i = 0; i < c->bytes[0] / 4; i++) ((float *)c->data[0])[i] = (float)random_below(3);
}

/* Rare ones among zeros, or rare zeros among ones. */
static void put_rare(test_case *c, int64_t common, int64_t b) {
    (void)b;
    for (int64_t i = 0; i < c->bytes[0]; i++) ((uint8_t *)c->data[0])[i] = random_below(200) ? (uint8_t)common : !common;
}

static void raise_mean(test_case *c, int64_t by, int64_t b) {
    (void)b;
    for (int64_t i = 0; i < c->bytes[0] / 4; i++) ((float *)c->data[0])[i] += (float)by;
}

/* The first few in all layouts, the others dense. */
static const int64_t shapes[][3] = {{3, 5, 70}, {2, 9, 16}, {4, 1, 1}, {1, 6, 3}, {2, 37, 33}, {1, 3, 2100}, {3, 1030, 2},
                                    {2, 3, 600}, {0, 3, 4},  {40, 30, 17}};
enum { SHAPES = sizeof shapes / sizeof shapes[0], SHAPES_OF_ALL_LAYOUTS = 5 };
static int has_layout(int shape, int how) { return how == DENSE || shape < SHAPES_OF_ALL_LAYOUTS; }

/* Half of the ops keep the dimensions of odd sets of axes, the other half those of even ones. */
static void add_reductions(case_visitor *v, const int64_t *shape, layout how) {
    const int is_prod = IS_ONE_OF(v->op, "prod"), is_bool = IS_ONE_OF(v->op, "any", "all");
    for (int64_t axes = 1; axes < 8; axes++) {
        test_case c;
        make_reduction(&c, v->op, axes, (int)(axes + IS_ONE_OF(v->op, "mean", "var", "amin", "all")) % 2, how, shape);
        if (is_prod) case_edit(&c, put_factors, 0, 0);
        if (is_bool) case_edit(&c, put_rare, v->op[1] == 'l', 0);
        visit_case(v, &c);
        if (is_bool || how != DENSE) continue;
        make_reduction(&c, v->op, axes, 0, how, shape);
        if (is_prod) case_edit(&c, put_factors, 0, 0);
        case_specials(&c, 0);
        visit_case(v, &c);
    }
}

static void time_reductions(case_visitor *v) {
    for (int i = 0; i < STREAMS; i++)
        for (int axes = 2; axes <= 4; axes += 2) {
            const int64_t rows = streams[i][0], n = streams[i][1];
            test_case c;
            make_reduction(&c, v->op, axes, 0, DENSE, (const int64_t[]){1, rows, n});
            case_timed(&c, (double)(rows * n), "%ld x %ld%s", (long)rows, (long)n, axes == 4 ? " inner" : " outer");
            visit_case(v, &c);
        }
}

void cases_reduction(case_visitor *v) {
    for (int i = 0; i < SHAPES; i++)
        for (int how = DENSE; how <= SCATTERED; how++)
            if (has_layout(i, how)) add_reductions(v, shapes[i], (layout)how);
    for (int64_t axes = 1; axes < 8 && strcmp(v->op, "var") == 0; axes += 3) {
        test_case c;
        make_reduction(&c, v->op, axes, 0, DENSE, (const int64_t[]){30, 7, 40});
        case_edit(&c, raise_mean, 3000, 0); /* a thousand times the deviation */
        case_note(&c, "large mean");
        visit_case(v, &c);
    }
    if (IS_ONE_OF(v->op, "sum", "amax", "var")) time_reductions(v);
}

static void time_arg(case_visitor *v, int64_t rows, int64_t n) {
    test_case c;
    make_arg(&c, v->op, 2, 0, DENSE, (const int64_t[]){1, rows, n});
    case_timed(&c, (double)(rows * n), "%ld x %ld inner", (long)rows, (long)n);
    visit_case(v, &c);
}

static void add_axis(case_visitor *v, const int64_t *shape, layout how, int axis) {
    const int keepdims = strcmp(v->op, "cumsum") == 0 || axis % 2;
    test_case c;
    make_arg(&c, v->op, axis, keepdims, how, shape);
    visit_case(v, &c);
    make_arg(&c, v->op, axis, keepdims, how, shape);
    case_edit(&c, put_ties, 0, 0);
    case_note(&c, "ties");
    visit_case(v, &c);
    make_arg(&c, v->op, axis, keepdims, how, shape);
    case_specials(&c, 0);
    visit_case(v, &c);
}

void cases_along_axis(case_visitor *v) {
    for (int i = 0; i < SHAPES; i++)
        for (int how = DENSE; how <= SCATTERED; how++)
            for (int axis = 0; axis < 3 && has_layout(i, how); axis++) add_axis(v, shapes[i], (layout)how, axis);
    if (strcmp(v->op, "argmax") != 0) return;
    for (int i = 0; i < STREAMS; i++) time_arg(v, streams[i][0], streams[i][1]);
    time_arg(v, 1, 50257);
}

/* A sort of nothing, and one of which nothing is wanted. What it answers else is tested from Python. */
void cases_argsort(case_visitor *v) {
    for (int size = 0; size < 2; size++) {
        test_case c;
        case_begin(&c, v->op, 0, "0 of %d", size);
        case_input(&c, EB_F32, DENSE, 1, SHAPE(2, size));
        case_output(&c, EB_I64, DENSE, SHAPE(2, 0));
        c.node.n_ints = 3;
        c.ints[EB_INT_ARGSORT_AXIS] = 1;
        visit_case(v, &c);
    }
}
