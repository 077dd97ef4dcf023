/* linear and matmul: every edge of the micro-tiles, every epilogue, packed and unpacked weights. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* Rounding of a sum of K products of random numbers below 1: partial sums grow with sqrt(k) and so does each rounding,
 * which makes the standard deviation 0.07 K ulp; six of them, and a few ulp for the epilogue. */
static double sum_tolerance(int64_t K) { return 1.2e-7 * (6 + 0.42 * (double)K); }

void make_linear(test_case *c, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int64_t activation) {
    case_begin(c, "linear", sum_tolerance(K), "M=%ld N=%ld K=%ld layout=%d transposed=%d activation=%ld", (long)M,
               (long)N, (long)K, (int)x_layout, transposed, (long)activation);
    case_input(c, EB_F32, x_layout, 1, SHAPE(M, K));
    case_input(c, EB_F32, DENSE, 1, 2, transposed ? (int64_t[]){N, K} : (int64_t[]){K, N});
    case_input(c, EB_F32, DENSE, 1, SHAPE(N));
    case_absent(c);
    case_output(c, EB_F32, DENSE, SHAPE(M, N));
    c->node.n_ints = 2;
    c->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] = transposed;
    c->ints[EB_INT_LINEAR_ACTIVATION] = activation;
    c->node.n_reals = 1;
    c->reals[EB_REAL_LINEAR_ALPHA] = 1;
}

/* With the weight constant (packed at load) and not. */
static void check_linear(int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int64_t activation) {
    for (unsigned constant = 0; constant <= 2; constant += 2) {
        test_case c;
        make_linear(&c, M, N, K, x_layout, transposed, activation);
        c.constant = constant;
        case_check(&c);
    }
}

/* All parts of the epilogue, x with leading axes, the residual of any layout or in the output's own memory. */
static void check_epilogue(int64_t M, int64_t N, int64_t K, int bias, layout residual_layout, int in_place, double alpha) {
    test_case c;
    case_begin(&c, "linear", 2 * sum_tolerance(K), "epilogue M=3x%ld N=%ld K=%ld bias=%d layout=%d in_place=%d alpha=%g",
               (long)M, (long)N, (long)K, bias, (int)residual_layout, in_place, alpha);
    case_input(&c, EB_F32, DENSE, 1, SHAPE(3, M, K));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(N, K));
    if (bias)
        case_input(&c, EB_F32, bias == 2 ? SCATTERED : DENSE, 1, SHAPE(N));
    else
        case_absent(&c);
    case_input(&c, EB_F32, residual_layout, 1, SHAPE(3, M, N));
    case_output(&c, EB_F32, DENSE, SHAPE(3, M, N));
    c.node.n_ints = 2;
    c.ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] = 1;
    c.ints[EB_INT_LINEAR_ACTIVATION] = random_below(EB_LINEAR_ACTIVATION_RELU6 + 1);
    c.node.n_reals = 1;
    c.reals[EB_REAL_LINEAR_ALPHA] = alpha;
    c.in_place = in_place ? 3 : -1;
    c.constant = 2;
    case_check(&c);
}

/* NaN and infinities of x and of the weight reach the rows and columns that they belong to, and no others. */
static void check_specials(void) {
    for (int i = 0; i < 8; i++) {
        test_case c;
        make_linear(&c, 29, 35, 9, DENSE, 1, i % (EB_LINEAR_ACTIVATION_RELU6 + 1));
        case_specials(&c, i % 2);
        c.tolerance = 1e-5;
        c.constant = 2;
        case_check(&c);
    }
}

/* A weight whose bytes begin anywhere packs to the same panels. */
static void check_unaligned_pack(void) {
    test_case c;
    make_linear(&c, 1, 70, 33, DENSE, 1, EB_LINEAR_ACTIVATION_NONE);
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_node node = c.node;
        node.kernel = k;
        if (strcmp(eb_kernel_describe(k).op, "linear") != 0 || !runs_here(k)) continue;
        const eb_layout packed = eb_layout_of(&node, 1);
        if (!packed.packing) continue;
        const int64_t bytes = packed.bytes;
        char *shifted = malloc((size_t)c.bytes[1] + 1);
        memcpy(shifted + 1, c.data[1], (size_t)c.bytes[1]);
        void *plain = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64)), *other = aligned_alloc(64, (size_t)((bytes + 63) / 64 * 64));
        eb_pack(&node, 1, c.data[1], plain, 0, packed.pieces);
        eb_pack(&node, 1, shifted + 1, other, 0, packed.pieces);
        if (memcmp(plain, other, (size_t)bytes) != 0) fail("%s packs an unaligned weight differently", eb_kernel_describe(k).name);
        free(shifted);
        free(plain);
        free(other);
    }
    case_end(&c);
}

void test_linear(void) {
    for (int64_t M = 0; M <= 31; M++) check_linear(M, 33, 7, DENSE, 1, EB_LINEAR_ACTIVATION_NONE);
    for (int64_t N = 0; N <= 66; N++) check_linear(3, N, 18, DENSE, (int)(N % 2), EB_LINEAR_ACTIVATION_NONE);
    for (int64_t K = 0; K <= 35; K++) check_linear(5, 34, K, (layout)(K % 4), (int)(K % 2), EB_LINEAR_ACTIVATION_NONE);
    for (int64_t M = 30; M <= 34; M++) check_linear(M, 64, 16, DENSE, 0, EB_LINEAR_ACTIVATION_RELU);
    for (int64_t activation = 0; activation <= EB_LINEAR_ACTIVATION_RELU6; activation++)
        check_linear(17, 47, 19, DENSE, 1, activation);
    for (int64_t K = 1023; K <= 1026; K++) check_linear(3, 37, K, DENSE, 1, EB_LINEAR_ACTIVATION_GELU);
    check_linear(16, 70, 2100, PADDED, 1, EB_LINEAR_ACTIVATION_SILU);
    check_linear(300, 130, 40, SWAPPED, 0, EB_LINEAR_ACTIVATION_NONE);
    for (int in_place = 0; in_place < 2; in_place++)
        for (int bias = 0; bias < 3; bias++) {
            check_epilogue(7, 33, 17, bias, DENSE, in_place, 1);
            check_epilogue(5, 64, 40, bias, DENSE, in_place, -0.5);
            check_epilogue(2, 21, 1500, bias, DENSE, in_place, 0.25);
            if (!in_place) check_epilogue(4, 32, 9, bias, bias ? PADDED : SWAPPED, 0, 2);
        }
    check_specials();
    check_unaligned_pack();
}

/* --- gated_linear -------------------------------------------------------------------------------------------------- */

void make_gated_linear(test_case *c, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int bias) {
    case_begin(c, "gated_linear", 4 * sum_tolerance(K), "M=%ld N=%ld K=%ld layout=%d transposed=%d bias=%d", (long)M, (long)N,
               (long)K, (int)x_layout, transposed, bias);
    case_input(c, EB_F32, x_layout, 1, SHAPE(M, K));
    case_input(c, EB_F32, DENSE, 1, 2, transposed ? (int64_t[]){2 * N, K} : (int64_t[]){K, 2 * N});
    if (bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(2 * N));
    else
        case_absent(c);
    case_output(c, EB_F32, DENSE, SHAPE(M, N));
    c->node.n_ints = 2;
    c->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] = transposed;
    c->ints[EB_INT_GATED_LINEAR_ACTIVATION] = (M + N + K) % (EB_GATED_LINEAR_ACTIVATION_RELU6 + 1);
}

static void check_gated_linear(int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int bias) {
    for (unsigned constant = 0; constant <= 2; constant += 2) {
        test_case c;
        make_gated_linear(&c, M, N, K, x_layout, transposed, bias);
        c.constant = constant;
        case_check(&c);
    }
}

void test_gated_linear(void) {
    for (int64_t M = 0; M <= 30; M++) check_gated_linear(M, 17, 9, DENSE, 1, (int)(M % 2));
    for (int64_t N = 0; N <= 34; N++) check_gated_linear(3, N, 18, PADDED, (int)(N % 2), (int)(N / 2 % 2));
    for (int64_t K = 0; K <= 20; K++) check_gated_linear(5, 20, K, (layout)(K % 4), (int)(K % 2), 1);
    check_gated_linear(300, 70, 33, DENSE, 1, 1);
    check_gated_linear(9, 40, 1030, DENSE, 1, 0);
    for (int i = 0; i < 3; i++) {
        test_case c;
        make_gated_linear(&c, 29, 35, 9, DENSE, 1, 1);
        case_specials(&c, i);
        c.tolerance = 2e-5; /* two factors, each as of linear */
        c.constant = 2;
        case_check(&c);
    }
}

/* --- matmul -------------------------------------------------------------------------------------------------------- */

void make_matmul(test_case *c, int64_t M, int64_t N, int64_t K, int transpose_a, int transpose_b, int batch, layout how) {
    int64_t a_batch[] = {2, 3}, b_batch[] = {2, 3};
    if (batch == 1) b_batch[0] = 1;
    case_begin(c, "matmul", 0.5 * sum_tolerance(K), "M=%ld N=%ld K=%ld transpose=%d,%d batch=%d layout=%d", (long)M, (long)N,
               (long)K, transpose_a, transpose_b, batch, (int)how);
    int64_t a_rows = transpose_a ? K : M, b_rows = transpose_b ? N : K;
    case_input(c, EB_F32, how, 1, SHAPE(a_batch[0], a_batch[1], a_rows, M + K - a_rows));
    if (batch == 2)
        case_input(c, EB_F32, how, 1, SHAPE(b_rows, K + N - b_rows));
    else
        case_input(c, EB_F32, how, 1, SHAPE(b_batch[0], b_batch[1], b_rows, K + N - b_rows));
    case_output(c, EB_F32, DENSE, SHAPE(2, 3, M, N));
    c->node.n_ints = 2;
    c->ints[EB_INT_MATMUL_TRANSPOSE_A] = transpose_a;
    c->ints[EB_INT_MATMUL_TRANSPOSE_B] = transpose_b;
    c->node.n_reals = 1;
    c->reals[EB_REAL_MATMUL_ALPHA] = 0.5;
}

void test_matmul(void) {
    static const int64_t shapes[][3] = {{1, 1, 1},   {0, 5, 3},   {3, 0, 2},    {4, 6, 0},   {13, 31, 5},  {14, 32, 16},
                                        {15, 33, 17}, {7, 16, 64}, {40, 48, 20}, {33, 65, 32}, {29, 90, 1030}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int variant = 0; variant < 4; variant++) {
            test_case c;
            make_matmul(&c, shapes[i][0], shapes[i][1], shapes[i][2], variant & 1, variant >> 1, (int)i % 3, (layout)(i % 4));
            case_check(&c);
        }
    for (int i = 0; i < 2; i++) {
        test_case c;
        make_matmul(&c, 20, 40, 12, 0, 1, 0, DENSE);
        case_specials(&c, i);
        c.tolerance = 1e-5;
        case_check(&c);
    }
}
