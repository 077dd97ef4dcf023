/* Heads as they lie in a product's row: rope, and norms of them. */
#include "suite.h"

/* x [B, S, H, D] seen as [B, H, S, D], a part of rows with room for one head more where `inside`. */
void make_rope(test_case *c, int64_t B, int64_t S, int64_t H, int64_t D, int inside, layout angles) {
    case_begin(c, "rope", 2e-6, "%ld x %ld tokens, %ld heads of %ld, inside=%d angles=%d", (long)B, (long)S, (long)H, (long)D,
               inside, (int)angles);
    eb_tensor *x = case_input(c, EB_F32, DENSE, 3, SHAPE(B, S, H + inside, D));
    int64_t token = x->stride[1], head = x->stride[2];
    x->shape[1] = H, x->stride[1] = head, x->shape[2] = S, x->stride[2] = token;
    for (int i = 0; i < 2; i++) case_input(c, EB_F32, angles, 1, SHAPE(1, S, D));
    case_output(c, EB_F32, DENSE, SHAPE(B, H, S, D));
}

/* Heads: rows that are parts of longer ones, so that no one stride leads from each to the next. */
static void check_heads(const char *op, int64_t n, int sum) {
    test_case c;
    int is_layer = op[0] == 'l';
    case_begin(&c, op, 3e-6, "heads of n=%ld, sum=%d", (long)n, sum);
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
    case_check(&c);
}

void test_heads(void) {
    static const int64_t widths[] = {2, 4, 6, 8, 14, 16, 30, 32, 34, 64, 66, 80, 96, 128, 256};
    test_case c;
    for (int i = 0; i < 15; i++) {
        make_rope(&c, 1 + i % 2, 1 + i % 5, 1 + i % 3, widths[i], i % 2, (layout)(i % 4));
        case_check(&c);
        make_rope(&c, 2, 3, 2, widths[i], 0, DENSE);
        case_specials(&c, 0);
        case_check(&c);
        check_heads("layer_norm", widths[i] - 1, i % 2);
        check_heads("rms_norm", widths[i], i % 2);
    }
    make_rope(&c, 3, 70, 4, 128, 1, DENSE); /* several tiles */
    case_check(&c);
    make_rope(&c, 2, 0, 4, 16, 0, DENSE);
    case_check(&c);
}
