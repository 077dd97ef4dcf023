/* Heads as they lie in a product's row: rope, and norms of them. */
#include "suite.h"

static const int64_t head_widths[] = {2, 4, 6, 8, 14, 16, 30, 32, 34, 64, 66, 80, 96, 128, 256};
enum { HEAD_WIDTHS = sizeof head_widths / sizeof head_widths[0] };

/* x [B, S, H, D] seen as [B, H, S, D], a part of rows with room for one head more where `inside`. */
static void make_rope(test_case *c, int64_t B, int64_t S, int64_t H, int64_t D, int inside, layout angles) {
    case_begin(c, "rope", 2e-6, "%ld x %ld tokens, %ld heads of %ld, inside=%d angles=%d", (long)B, (long)S, (long)H, (long)D,
               inside, (int)angles);
    eb_tensor *x = case_input(c, EB_F32, DENSE, 3, SHAPE(B, S, H + inside, D));
    int64_t token = x->stride[1], head = x->stride[2];
    x->shape[1] = H, x->stride[1] = head, x->shape[2] = S, x->stride[2] = token;
    for (int i = 0; i < 2; i++) case_input(c, EB_F32, angles, 1, SHAPE(1, S, D));
    case_output(c, EB_F32, DENSE, SHAPE(B, H, S, D));
}

/* Heads: rows that are parts of longer ones, so that no one stride leads from each to the next. */
static void add_heads_of(case_visitor *v, int64_t n, int sum) {
    test_case c;
    int is_layer = v->op[0] == 'l';
    case_begin(&c, v->op, 3e-6, "heads of n=%ld, sum=%d", (long)n, sum);
    eb_tensor *x = case_input(&c, EB_F32, DENSE, 3, SHAPE(2, 5, 4, n));
    x->shape[2] = 3;
    case_input(&c, EB_F32, DENSE, 1, SHAPE(n));
    if (is_layer) case_absent(&c);
    if (sum)
        case_input(&c, EB_F32, DENSE, 2, SHAPE(2, 5, 3, n));
    else
        case_absent(&c);
    case_output(&c, EB_F32, DENSE, SHAPE(2, 5, 3, n));
    c.node.n_ints = c.node.n_reals = 1;
    c.ints[EB_INT_LAYER_NORM_AXES] = 1;
    c.reals[EB_REAL_LAYER_NORM_EPSILON] = 1e-5;
    visit_case(v, &c);
}

void add_heads(case_visitor *v) {
    for (int i = 0; i < HEAD_WIDTHS; i++) add_heads_of(v, head_widths[i] - (v->op[0] == 'l'), i % 2);
}

void cases_rope(case_visitor *v) {
    test_case c;
    for (int i = 0; i < HEAD_WIDTHS; i++) {
        make_rope(&c, 1 + i % 2, 1 + i % 5, 1 + i % 3, head_widths[i], i % 2, (layout)(i % 4));
        visit_case(v, &c);
        make_rope(&c, 2, 3, 2, head_widths[i], 0, DENSE);
        case_specials(&c, 0);
        visit_case(v, &c);
    }
    make_rope(&c, 3, 70, 4, 128, 1, DENSE); /* several tiles */
    visit_case(v, &c);
    make_rope(&c, 2, 0, 4, 16, 0, DENSE);
    visit_case(v, &c);
    for (int i = 0; i < 8; i++) { /* nothing, along any axis */
        make_rope(&c, i & 1 ? 3 : 0, i & 2 ? 3 : 0, i & 4 ? 3 : 0, 4, 0, DENSE);
        visit_case(v, &c);
    }
    make_rope(&c, 2, 2, 2, 0, 0, DENSE);
    visit_case(v, &c);
    for (int i = 0; i < STREAMS; i++) {
        const int64_t rows = streams[i][0], n = streams[i][1];
        make_rope(&c, 1, rows, n / 128, 128, 0, DENSE);
        case_timed(&c, 3.0 * (double)(rows * n), "%ld x %ld in heads of 128", (long)rows, (long)n);
        visit_case(v, &c);
    }
}
