/* Norms and softmax. */
#include <math.h>
#include <stdio.h>

#include "suite.h"

void make_norm(test_case *c, const char *op, int64_t rows, int64_t n, int affine, layout how) {
    int is_layer = op[0] == 'l';
    case_begin(c, op, 3e-6, "rows=%ld n=%ld affine=%d layout=%d", (long)rows, (long)n, affine, (int)how);
    case_input(c, EB_F32, how, 3, SHAPE(2, rows, n));
    if (affine)
        case_input(c, EB_F32, DENSE, 1, SHAPE(n));
    else
        case_absent(c);
    if (is_layer && affine)
        case_input(c, EB_F32, DENSE, 1, SHAPE(n));
    else if (is_layer)
        case_absent(c);
    case_output(c, EB_F32, DENSE, SHAPE(2, rows, n));
    c->node.n_ints = c->node.n_reals = 1;
    c->ints[EB_INT_LAYER_NORM_AXES] = 1;
    c->reals[EB_REAL_LAYER_NORM_EPSILON] = 1e-5;
}

void make_softmax(test_case *c, const char *op, int64_t rows, int64_t n, int axis, layout how) {
    case_begin(c, op, 2e-6, "rows=%ld n=%ld axis=%d layout=%d", (long)rows, (long)n, axis, (int)how);
    case_input(c, EB_F32, how, 20, SHAPE(rows, n));
    case_output(c, EB_F32, DENSE, SHAPE(rows, n));
    c->node.n_ints = 1;
    c->ints[EB_INT_SOFTMAX_AXIS] = axis;
}

static void check_two_axes(void) {
    test_case c;
    case_begin(&c, "layer_norm", 3e-6, "over two axes, in place");
    case_input(&c, EB_F32, DENSE, 3, SHAPE(5, 4, 9));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(4, 9));
    case_absent(&c);
    case_output(&c, EB_F32, DENSE, SHAPE(5, 4, 9));
    c.node.n_ints = c.node.n_reals = 1;
    c.ints[EB_INT_LAYER_NORM_AXES] = 2;
    c.reals[EB_REAL_LAYER_NORM_EPSILON] = 1e-5;
    c.in_place = 0;
    case_check(&c);
}

/* The mean is a thousand times the deviation: a variance by the difference of squares would have no digits left. */
static void check_large_mean(void) {
    test_case c;
    make_norm(&c, "layer_norm", 3, 768, 1, DENSE);
    for (int64_t i = 0; i < c.bytes[0] / 4; i++) ((float *)c.data[0])[i] += 3000;
    c.tolerance = 3e-4; /* what rounding the inputs themselves to float leaves */
    case_check(&c);
}

void test_rows(void) {
    static const char *const norms[] = {"layer_norm", "rms_norm"}, *const softmaxes[] = {"softmax", "log_softmax"};
    static const int64_t widths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 768, 1000};
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 2; j++) {
            test_case c;
            make_norm(&c, norms[j], 1 + i % 5, widths[i], i % 2, (layout)(i % 4));
            case_check(&c);
            make_softmax(&c, softmaxes[j], 1 + i % 3, widths[i], i % 3 != 0, (layout)(i % 4));
            case_check(&c);
            make_softmax(&c, softmaxes[j], 4, widths[i], 1, DENSE);
            c.in_place = 0;
            case_check(&c);
            make_softmax(&c, softmaxes[j], 6, widths[i], 1, DENSE);
            case_specials(&c, 0);
            case_check(&c);
            make_norm(&c, norms[j], 3, widths[i], 1, DENSE);
            case_specials(&c, 0);
            case_check(&c);
        }
    test_case c;
    make_norm(&c, "layer_norm", 0, 8, 1, DENSE);
    case_check(&c);
    make_softmax(&c, "softmax", 3, 0, 1, DENSE);
    case_check(&c);
    make_softmax(&c, "softmax", 700, 64, 1, DENSE);
    case_check(&c);
    check_two_axes();
    check_large_mean();
}
