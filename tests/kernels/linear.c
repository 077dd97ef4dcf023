/* linear and matmul: every edge of the micro-tiles, every epilogue, packed and unpacked weights. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layers.h"
#include "suite.h"

/* Rounding of a sum of K products of random numbers below 1: partial sums grow with sqrt(k) and so does each rounding,
 * which makes the standard deviation 0.07 K ulp; six of them, and a few ulp for the epilogue. */
static double sum_tolerance(int64_t K) { return 1.2e-7 * (6 + 0.42 * (double)K); }

static void make_linear_of(test_case *c, eb_dtype dtype, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed,
                           int64_t activation) {
    case_begin(c, "linear", dtype == EB_F64 ? 1e-15 * (double)(6 + K) : sum_tolerance(K),
               "M=%ld N=%ld K=%ld dtype=%d layout=%d transposed=%d activation=%ld", (long)M, (long)N, (long)K, (int)dtype,
               (int)x_layout, transposed, (long)activation);
    case_input(c, dtype, x_layout, 1, SHAPE(M, K));
    case_input(c, dtype, DENSE, 1, 2, transposed ? (int64_t[]){N, K} : (int64_t[]){K, N});
    case_input(c, dtype, DENSE, 1, SHAPE(N));
    case_absent(c);
    case_absent(c);
    case_output(c, dtype, DENSE, SHAPE(M, N));
    c->node.n_ints = 2;
    c->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] = transposed;
    c->ints[EB_INT_LINEAR_ACTIVATION] = activation;
    c->node.n_reals = 1;
    c->reals[EB_REAL_LINEAR_ALPHA] = 1;
}

static void make_linear(test_case *c, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int64_t activation) {
    make_linear_of(c, EB_F32, M, N, K, x_layout, transposed, activation);
}

/* With the weight constant (packed at load) and not. */
static void add_linear(case_visitor *v, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int64_t activation) {
    for (unsigned constant = 0; constant <= 2; constant += 2) {
        test_case c;
        make_linear(&c, M, N, K, x_layout, transposed, activation);
        c.constant = constant;
        visit_case(v, &c);
    }
}

/* All parts of the epilogue, x with leading axes, the residual of any layout or in the output's own memory. */
static void add_epilogue(case_visitor *v, eb_dtype dtype, int64_t M, int64_t N, int64_t K, int bias, layout residual_layout,
                         int in_place, double alpha) {
    test_case c;
    case_begin(&c, "linear", dtype == EB_F64 ? 1e-15 * (double)(6 + K) : 2 * sum_tolerance(K),
               "epilogue M=3x%ld N=%ld K=%ld dtype=%d bias=%d layout=%d alpha=%g", (long)M, (long)N, (long)K, (int)dtype, bias,
               (int)residual_layout, alpha);
    case_input(&c, dtype, DENSE, 1, SHAPE(3, M, K));
    case_input(&c, dtype, DENSE, 1, SHAPE(N, K));
    if (bias)
        case_input(&c, dtype, bias == 2 ? SCATTERED : DENSE, 1, SHAPE(N));
    else
        case_absent(&c);
    case_input(&c, dtype, residual_layout, 1, SHAPE(3, M, N));
    case_absent(&c);
    case_output(&c, dtype, DENSE, SHAPE(3, M, N));
    c.node.n_ints = 2;
    c.ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] = 1;
    c.ints[EB_INT_LINEAR_ACTIVATION] = (M + N + K + 2 * bias + in_place) % (EB_ACTIVATION_RELU6 + 1);
    c.node.n_reals = 1;
    c.reals[EB_REAL_LINEAR_ALPHA] = alpha;
    c.in_place = in_place ? 3 : -1;
    c.constant = 2;
    visit_case(v, &c);
}

/* NaN and infinities of x and of the weight reach the rows and columns that they belong to, and no others. */
static void add_specials(case_visitor *v) {
    for (int i = 0; i < 8; i++) {
        test_case c;
        make_linear(&c, 29, 35, 9, DENSE, 1, i % (EB_ACTIVATION_RELU6 + 1));
        case_specials(&c, i % 2);
        c.tolerance = 1e-5;
        c.constant = 2;
        visit_case(v, &c);
    }
}

/* The factor x [M, K] of a product in some arithmetic: floats, or all bytes, whose rows have scales as input_scale describes them. */
static void input_factor(test_case *c, int64_t compute, layout how, int64_t M, int64_t K) {
    case_input(c, compute == EB_COMPUTE_INT8 ? EB_I8 : EB_F32, how, compute == EB_COMPUTE_INT8 ? 256 : 1, SHAPE(M, K));
}

static void input_scale(test_case *c, int64_t compute, int64_t M) {
    if (compute == EB_COMPUTE_INT8)
        case_input(c, EB_F32, M % 2 ? PADDED : DENSE, 1e-4, SHAPE(M, 1)); /* so that sums are near 1 */
    else
        case_absent(c);
}

/* Equal numbers, but zeros and NaN of any sign: of products of bytes every step up to an activation that computes is defined. */
#define EXACT 1e-30
static double byte_tolerance(int64_t activation) {
    return activation == EB_ACTIVATION_NONE || activation == EB_ACTIVATION_RELU || activation == EB_ACTIVATION_RELU6 ? EXACT : 3e-6;
}

/* A weight [N, K], or [K, N], stored in an encoding. K: a multiple of the size of a group. */
static void make_encoded(test_case *c, int64_t M, int64_t N, int64_t K, const char *encoding, int transposed, int64_t compute,
                         int bias) {
    case_begin(c, "linear", compute == EB_COMPUTE_INT8 ? EXACT : 4e-5 * (double)(K + 1), "%s M=%ld N=%ld K=%ld transposed=%d compute=%ld bias=%d", encoding, (long)M,
               (long)N, (long)K, transposed, (long)compute, bias);
    input_factor(c, compute, DENSE, M, K);
    case_input(c, EB_F32, DENSE, 1, 2, transposed ? (int64_t[]){N, K} : (int64_t[]){K, N});
    if (bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(N));
    else
        case_absent(c);
    case_absent(c);
    input_scale(c, compute, M);
    const int is_grouped = strncmp(encoding, "int8", 4) != 0; /* else a channel of the result */
    case_encode(c, EB_IN_LINEAR_WEIGHT, encoding, transposed ? is_grouped : !is_grouped);
    case_output(c, EB_F32, DENSE, SHAPE(M, N));
    c->node.n_ints = EB_INT_LINEAR_COMPUTE + 1;
    c->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] = transposed;
    c->ints[EB_INT_LINEAR_COMPUTE] = compute;
    c->node.n_reals = 1;
    c->reals[EB_REAL_LINEAR_ALPHA] = 1;
}

static void add_encoded(case_visitor *v, int64_t M, int64_t N, int64_t K, const char *encoding, int transposed,
                        int64_t compute, int bias) {
    test_case c;
    make_encoded(&c, M, N, K, encoding, transposed, compute, bias);
    visit_case(v, &c);
}

/* Every encoding in every arithmetic that reads it. */
static void add_encodings(case_visitor *v) {
    for (int32_t e = 1; e < eb_encoding_count(); e++) {
        const eb_encoding how = eb_encoding_describe(e);
        const int64_t other = how.per == EB_PER_ELEMENT ? EB_COMPUTE_BFLOAT16 : how.per == EB_PER_CHANNEL ? EB_COMPUTE_INT8 : 0;
        for (int64_t compute = 0; compute <= other; compute += other ? other : 1)
            for (int64_t M = 0; M < 4; M++) add_encoded(v, M, 34, 256, how.name, (int)M % 2, compute, (int)M / 2);
    }
}

/* An encoding of weights for which there are vector kernels. */
typedef struct {
    const char *name, *encoding;
    int64_t compute;
    double largest; /* element: of bytes 127 and a scale of 0.1 */
} narrow_weight;
static const narrow_weight narrow_weights[] = {{"bytes", "int8_channel", EB_COMPUTE_ELEMENT, 12.8},
                                               {"halves", "float16", EB_COMPUTE_ELEMENT, 1},
                                               {"bfloat16", "bfloat16", EB_COMPUTE_BFLOAT16, 1},
                                               {"bytes by bytes", "int8_channel", EB_COMPUTE_INT8, 1}};
enum { NARROW_WEIGHTS = sizeof narrow_weights / sizeof narrow_weights[0] };

/* A constant weight stored in an encoding, and any epilogue. Only reference kernels read one that is not constant. */
static void add_narrow(case_visitor *v, const narrow_weight *w, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed,
                       int bias, int residual, int64_t activation, double alpha) {
    test_case c;
    case_begin(&c, "linear", w->compute == EB_COMPUTE_INT8 ? byte_tolerance(activation) : w->largest * sum_tolerance(K),
               "%s M=%ld N=%ld K=%ld layout=%d transposed=%d bias=%d residual=%d %ld %g", w->name, (long)M, (long)N, (long)K,
               (int)x_layout, transposed, bias, residual, (long)activation, alpha);
    input_factor(&c, w->compute, x_layout, M, K);
    case_input(&c, EB_F32, DENSE, 1, 2, transposed ? (int64_t[]){N, K} : (int64_t[]){K, N});
    if (bias)
        case_input(&c, EB_F32, DENSE, 1, SHAPE(N));
    else
        case_absent(&c);
    if (residual)
        case_input(&c, EB_F32, PADDED, 1, SHAPE(M, N));
    else
        case_absent(&c);
    input_scale(&c, w->compute, M);
    case_encode(&c, EB_IN_LINEAR_WEIGHT, w->encoding, !transposed);
    case_output(&c, EB_F32, DENSE, SHAPE(M, N));
    c.node.n_ints = EB_INT_LINEAR_COMPUTE + 1;
    c.ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] = transposed;
    c.ints[EB_INT_LINEAR_ACTIVATION] = activation;
    c.ints[EB_INT_LINEAR_COMPUTE] = w->compute;
    c.node.n_reals = 1;
    c.reals[EB_REAL_LINEAR_ALPHA] = alpha;
    c.constant = 2;
    visit_case(v, &c);
}

static void add_all_narrow(case_visitor *v, const narrow_weight *w) {
    for (int64_t M = 0; M <= 30; M++) add_narrow(v, w, M, 34, 19, DENSE, (int)(M % 2), 1, 0, EB_ACTIVATION_NONE, 1);
    for (int64_t N = 0; N <= 66; N++) add_narrow(v, w, 1 + N % 5, N, 18, DENSE, 1, (int)(N % 2), (int)(N % 3 == 0), N % 4, 1);
    for (int64_t K = 0; K <= 35; K++) add_narrow(v, w, 1 + K % 5, 40, K, (layout)(K % 4), (int)(K % 2), 1, 0, 0, 1);
    for (int64_t K = 60; K <= 68; K++) add_narrow(v, w, 2, 33, K, PADDED, 1, 0, 0, 0, 1);
    /* around whole tiles of 16 rows, 16 columns and 16 groups, several of them too */
    for (int64_t K = 30; K <= 130; K += K == 34 ? 26 : K == 66 ? 60 : 1)
        for (int64_t M = 15; M <= 49; M += M % 16 == 1 ? 14 : 1) add_narrow(v, w, M, 15 + (K + M) % 20, K, DENSE, 1, 1, 1, M % 4, 1);
    for (int64_t activation = 0; activation <= EB_ACTIVATION_RELU6; activation++)
        for (int64_t M = 1; M <= 5; M++) add_narrow(v, w, M, 45, 65, DENSE, 1, 1, 1, activation, -0.5);
    add_narrow(v, w, 300, 130, 40, SWAPPED, 0, 1, 1, EB_ACTIVATION_GELU, 1);
    add_narrow(v, w, 3, 70, 2100, PADDED, 1, 0, 1, EB_ACTIVATION_SILU, 0.25);
    add_narrow(v, w, 280, 33, 1000, DENSE, 1, 1, 0, EB_ACTIVATION_NONE, 1); /* rounded in two tiles */
    if (w->compute == EB_COMPUTE_INT8) add_narrow(v, w, 2, 17, 65537, DENSE, 1, 1, 0, EB_ACTIVATION_NONE, 1);
}

/* NaN and infinities of x, or of the scales of its rows, reach the rows that they belong to, and no others. */
static void add_narrow_specials(case_visitor *v, const narrow_weight *w) {
    for (int64_t M = 1; M <= 16; M += 5) {
        test_case c;
        make_encoded(&c, M, 35, 9, w->encoding, 1, w->compute, 1);
        case_specials(&c, w->compute == EB_COMPUTE_INT8 ? EB_IN_LINEAR_SCALE : EB_IN_LINEAR_X);
        c.constant = 2;
        visit_case(v, &c);
    }
}

/* The first element of each row of x is 2^exponent, and the weight ignores it: the others make the result. */
static void put_ignored_peak(test_case *c, int64_t exponent, int64_t b) {
    (void)b;
    const int64_t M = c->operands[EB_IN_LINEAR_X].shape[0], K = c->operands[EB_IN_LINEAR_X].shape[1];
    const int64_t N = c->operands[EB_IN_LINEAR_WEIGHT].shape[0], element = c->bytes[EB_IN_LINEAR_WEIGHT] / (N * K);
    for (int64_t m = 0; m < M; m++) ((float *)c->data[EB_IN_LINEAR_X])[m * K] = ldexpf(1, (int)exponent);
    for (int64_t n = 0; n < N; n++) memset((char *)c->data[EB_IN_LINEAR_WEIGHT] + n * K * element, 0, (size_t)element);
}

static void add_ignored_peaks(case_visitor *v, const narrow_weight *w) {
    for (int64_t exponent = 10; exponent <= 100; exponent += 15) {
        for (int64_t M = 1; M <= 10; M += 3) {
            test_case c;
            make_encoded(&c, M, 35, 19, w->encoding, 1, w->compute, 1);
            case_note(&c, "peak 2^%ld", (long)exponent);
            c.tolerance = w->largest * sum_tolerance(19);
            c.constant = 2;
            case_edit(&c, put_ignored_peak, exponent, 0);
            visit_case(v, &c);
        }
    }
}

static void time_narrow(case_visitor *v, const narrow_weight *w) {
    static const int64_t layers[][3] = {{1, 768, 3072},  {1, 768, 100000}, {1, 8192, 8192},   {4, 768, 3072},
                                        {32, 768, 3072}, {128, 768, 3072}, {1024, 768, 3072}};
    for (int i = 0; i < 7; i++) {
        const int64_t M = layers[i][0], K = layers[i][1], N = layers[i][2];
        test_case c;
        make_encoded(&c, M, N, K, w->encoding, 1, w->compute, 1);
        c.constant = 2;
        case_timed(&c, 2.0 * (double)(M * N * K), "%ld x %ld x %ld of %s", (long)M, (long)K, (long)N, w->name);
        visit_case(v, &c);
    }
}

static void time_linear(case_visitor *v, int64_t M, int64_t K, int64_t N, int64_t activation) {
    test_case c;
    make_linear(&c, M, N, K, DENSE, 1, activation);
    c.constant = 2;
    case_timed(&c, 2.0 * (double)(M * N * K), "%ld x %ld x %ld%s", (long)M, (long)K, (long)N,
               activation == EB_ACTIVATION_GELU ? " gelu" : "");
    visit_case(v, &c);
}

/* Layers of transformers, then those that a program makes of convolutions by 1 x 1 of stride 1. */
static void time_layers(case_visitor *v) {
    static const int64_t rows[] = {16, 32, 128, 512, 1024};
    static const int64_t weights[][2] = {{768, 768}, {768, 3072}, {3072, 768}, {1024, 1024}, {1024, 4096}};
    static const int64_t others[][3] = {{1, 768, 768},    {1, 768, 3072},   {4, 768, 3072},   {8, 384, 1536},  {1, 8192, 8192},
                                        {128, 512, 512}, {128, 512, 1536}, {128, 512, 2048}, {128, 2048, 512}};
    for (int i = 0; i < 25; i++) time_linear(v, rows[i % 5], weights[i / 5][0], weights[i / 5][1], EB_ACTIVATION_NONE);
    for (int i = 0; i < 9; i++) time_linear(v, others[i][0], others[i][1], others[i][2], EB_ACTIVATION_NONE);
    time_linear(v, 128, 768, 3072, EB_ACTIVATION_GELU);
    time_linear(v, 128, 512, 2048, EB_ACTIVATION_GELU);
    for (int i = 0; i < NARROW_WEIGHTS; i++) time_narrow(v, &narrow_weights[i]);
    for (int i = 0; i < CONV_LAYERS; i++) {
        const conv_layer *l = &conv_layers[i];
        if (!is_linear_layer(l)) continue;
        test_case c;
        make_linear(&c, places_of_layer(l), l->O, l->C, DENSE, 1, EB_ACTIVATION_RELU);
        c.constant = 2;
        name_layer(&c, l);
        visit_case(v, &c);
    }
}

void cases_linear(case_visitor *v) {
    for (int64_t M = 0; M <= 31; M++) add_linear(v, M, 33, 7, DENSE, 1, EB_ACTIVATION_NONE);
    for (int64_t N = 0; N <= 66; N++) add_linear(v, 3, N, 18, DENSE, (int)(N % 2), EB_ACTIVATION_NONE);
    for (int64_t K = 0; K <= 35; K++) add_linear(v, 5, 34, K, (layout)(K % 4), (int)(K % 2), EB_ACTIVATION_NONE);
    for (int64_t M = 30; M <= 34; M++) add_linear(v, M, 64, 16, DENSE, 0, EB_ACTIVATION_RELU);
    for (int64_t activation = 0; activation <= EB_ACTIVATION_RELU6; activation++)
        add_linear(v, 17, 47, 19, DENSE, 1, activation);
    for (int64_t K = 1023; K <= 1026; K++) add_linear(v, 3, 37, K, DENSE, 1, EB_ACTIVATION_GELU);
    add_linear(v, 16, 70, 2100, PADDED, 1, EB_ACTIVATION_SILU);
    add_linear(v, 300, 130, 40, SWAPPED, 0, EB_ACTIVATION_NONE);
    for (int i = 0; i < 12; i++) {
        const int in_place = i % 2, bias = i / 2 % 3;
        const eb_dtype dtype = i < 6 ? EB_F32 : EB_F64;
        add_epilogue(v, dtype, 7, 33, 17, bias, DENSE, in_place, 1);
        add_epilogue(v, dtype, 5, 64, 40, bias, DENSE, in_place, -0.5);
        add_epilogue(v, dtype, 2, 21, 1500, bias, DENSE, in_place, 0.25);
        if (!in_place) add_epilogue(v, dtype, 4, 32, 9, bias, bias ? PADDED : SWAPPED, 0, 2);
    }
    for (int i = 0; i < 24; i++) { /* of float64: edges of rows and columns, blocks of k, both orders of the weight */
        static const int64_t sizes[] = {1, 0, 7, 17, 200, 3}, depths[] = {5, 300, 0, 1};
        test_case c;
        make_linear_of(&c, EB_F64, sizes[i % 6], sizes[i / 2 % 6], depths[i % 4], (layout)(i / 4 % 4), i % 2,
                       i % (EB_ACTIVATION_RELU6 + 1));
        if (i == 6) case_specials(&c, 0);
        visit_case(v, &c);
    }
    add_specials(v);
    add_encodings(v);
    for (int i = 0; i < NARROW_WEIGHTS; i++) {
        add_all_narrow(v, &narrow_weights[i]);
        add_narrow_specials(v, &narrow_weights[i]);
        if (narrow_weights[i].compute != EB_COMPUTE_INT8) add_ignored_peaks(v, &narrow_weights[i]);
    }
    for (int i = 0; i < 8; i++) add_linear(v, i & 1 ? 3 : 0, i & 2 ? 3 : 0, i & 4 ? 3 : 0, DENSE, 0, EB_ACTIVATION_NONE);
    time_layers(v);
}

/* A weight whose bytes begin anywhere packs to the same panels. */
void test_packing(void) {
    test_case c;
    make_linear(&c, 1, 70, 33, DENSE, 1, EB_ACTIVATION_NONE);
    case_fill(&c);
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

/* --- gated_linear -------------------------------------------------------------------------------------------------- */

static void make_gated_linear(test_case *c, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int bias) {
    case_begin(c, "gated_linear", 4 * sum_tolerance(K), "M=%ld N=%ld K=%ld layout=%d transposed=%d bias=%d", (long)M, (long)N,
               (long)K, (int)x_layout, transposed, bias);
    case_input(c, EB_F32, x_layout, 1, SHAPE(M, K));
    case_input(c, EB_F32, DENSE, 1, 2, transposed ? (int64_t[]){2 * N, K} : (int64_t[]){K, 2 * N});
    if (bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(2 * N));
    else
        case_absent(c);
    case_absent(c);
    case_output(c, EB_F32, DENSE, SHAPE(M, N));
    c->node.n_ints = 2;
    c->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] = transposed;
    c->ints[EB_INT_GATED_LINEAR_ACTIVATION] = (M + N + K) % (EB_ACTIVATION_RELU6 + 1);
}

static void add_gated_linear(case_visitor *v, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int bias) {
    for (unsigned constant = 0; constant <= 2; constant += 2) {
        test_case c;
        make_gated_linear(&c, M, N, K, x_layout, transposed, bias);
        c.constant = constant;
        visit_case(v, &c);
    }
}

/* A weight stored in an encoding. */
static void make_narrow_gated_linear(test_case *c, const narrow_weight *w, int64_t M, int64_t N, int64_t K, layout x_layout,
                                     int transposed, int bias) {
    /* Two factors, each of which is as large as its sums are wrong. */
    const double largest = w->largest * w->largest;
    case_begin(c, "gated_linear", w->compute == EB_COMPUTE_INT8 ? 1e-5 : 4 * largest * sum_tolerance(K), "%s M=%ld N=%ld K=%ld layout=%d transposed=%d bias=%d",
               w->name, (long)M, (long)N, (long)K, (int)x_layout, transposed, bias);
    input_factor(c, w->compute, x_layout, M, K);
    case_input(c, EB_F32, DENSE, 1, 2, transposed ? (int64_t[]){2 * N, K} : (int64_t[]){K, 2 * N});
    if (bias)
        case_input(c, EB_F32, DENSE, 1, SHAPE(2 * N));
    else
        case_absent(c);
    input_scale(c, w->compute, M);
    case_encode(c, EB_IN_GATED_LINEAR_WEIGHT, w->encoding, !transposed);
    case_output(c, EB_F32, DENSE, SHAPE(M, N));
    c->node.n_ints = EB_INT_GATED_LINEAR_COMPUTE + 1;
    c->ints[EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT] = transposed;
    c->ints[EB_INT_GATED_LINEAR_ACTIVATION] = (M + N + K) % (EB_ACTIVATION_RELU6 + 1);
    c->ints[EB_INT_GATED_LINEAR_COMPUTE] = w->compute;
}

static void add_narrow_gated_linear(case_visitor *v, const narrow_weight *w, int64_t M, int64_t N, int64_t K, layout x_layout,
                                    int transposed, int bias) {
    test_case c;
    make_narrow_gated_linear(&c, w, M, N, K, x_layout, transposed, bias);
    c.constant = 2;
    visit_case(v, &c);
}

static void add_all_narrow_gated_linear(case_visitor *v, const narrow_weight *w) {
    for (int64_t M = 0; M <= 30; M++) add_narrow_gated_linear(v, w, M, 17, 9, DENSE, 1, (int)(M % 2));
    for (int64_t N = 0; N <= 34; N++) add_narrow_gated_linear(v, w, 3, N, 18, PADDED, (int)(N % 2), (int)(N / 2 % 2));
    for (int64_t K = 0; K <= 20; K++) add_narrow_gated_linear(v, w, 5, 20, K, (layout)(K % 4), (int)(K % 2), 1);
    for (int64_t M = 15; M <= 49; M += M % 16 == 1 ? 14 : 1) add_narrow_gated_linear(v, w, M, 14 + M % 4, 64 + M % 3, DENSE, 1, 1);
    add_narrow_gated_linear(v, w, 300, 70, 33, DENSE, 1, 1);
    add_narrow_gated_linear(v, w, 9, 40, 1030, DENSE, 1, 0);
}

static void time_gated_linear(case_visitor *v, int64_t M, int64_t K, int64_t N, const narrow_weight *w) {
    test_case c;
    if (w)
        make_narrow_gated_linear(&c, w, M, N, K, DENSE, 1, 0);
    else
        make_gated_linear(&c, M, N, K, DENSE, 1, 0);
    c.ints[EB_INT_GATED_LINEAR_ACTIVATION] = EB_ACTIVATION_SILU;
    c.constant = 2;
    case_timed(&c, 4.0 * (double)(M * N * K), "%ld x %ld x 2 * %ld silu%s%s", (long)M, (long)K, (long)N, w ? " of " : "",
               w ? w->name : "");
    visit_case(v, &c);
}

void cases_gated_linear(case_visitor *v) {
    for (int64_t M = 0; M <= 30; M++) add_gated_linear(v, M, 17, 9, DENSE, 1, (int)(M % 2));
    for (int64_t N = 0; N <= 34; N++) add_gated_linear(v, 3, N, 18, PADDED, (int)(N % 2), (int)(N / 2 % 2));
    for (int64_t K = 0; K <= 20; K++) add_gated_linear(v, 5, 20, K, (layout)(K % 4), (int)(K % 2), 1);
    add_gated_linear(v, 300, 70, 33, DENSE, 1, 1);
    add_gated_linear(v, 9, 40, 1030, DENSE, 1, 0);
    for (int i = 0; i < 3; i++) {
        test_case c;
        make_gated_linear(&c, 29, 35, 9, DENSE, 1, 1);
        case_specials(&c, i);
        c.tolerance = 2e-5; /* two factors, each as of linear */
        c.constant = 2;
        visit_case(v, &c);
    }
    for (int i = 0; i < 8; i++) add_gated_linear(v, i & 1 ? 3 : 0, i & 2 ? 3 : 0, i & 4 ? 3 : 0, DENSE, 1, 1);
    for (int i = 0; i < NARROW_WEIGHTS; i++) add_all_narrow_gated_linear(v, &narrow_weights[i]);
    for (int i = -1; i < NARROW_WEIGHTS; i++)
        for (int rows = 0; rows < 3; rows++)
            time_gated_linear(v, (int64_t[]){128, 16, 1}[rows], 1024, 3072, i < 0 ? NULL : &narrow_weights[i]);
}

/* --- matmul -------------------------------------------------------------------------------------------------------- */

static void make_matmul(test_case *c, eb_dtype dtype, int64_t M, int64_t N, int64_t K, int transpose_a, int transpose_b, int batch,
                        layout how) {
    int64_t a_batch[] = {2, 3}, b_batch[] = {2, 3};
    if (batch == 1) b_batch[0] = 1;
    case_begin(c, "matmul", dtype == EB_F64 ? 1e-15 * (double)(6 + K) : 0.5 * sum_tolerance(K),
               "M=%ld N=%ld K=%ld dtype=%d transpose=%d,%d batch=%d layout=%d", (long)M, (long)N, (long)K, (int)dtype, transpose_a,
               transpose_b, batch, (int)how);
    int64_t a_rows = transpose_a ? K : M, b_rows = transpose_b ? N : K;
    case_input(c, dtype, how, 1, SHAPE(a_batch[0], a_batch[1], a_rows, M + K - a_rows));
    if (batch == 2)
        case_input(c, dtype, how, 1, SHAPE(b_rows, K + N - b_rows));
    else
        case_input(c, dtype, how, 1, SHAPE(b_batch[0], b_batch[1], b_rows, K + N - b_rows));
    case_output(c, dtype, DENSE, SHAPE(2, 3, M, N));
    c->node.n_ints = 2;
    c->ints[EB_INT_MATMUL_TRANSPOSE_A] = transpose_a;
    c->ints[EB_INT_MATMUL_TRANSPOSE_B] = transpose_b;
    c->node.n_reals = 1;
    c->reals[EB_REAL_MATMUL_ALPHA] = 0.5;
}

static void time_matmul(case_visitor *v, int64_t M, int64_t N, int64_t K, int transpose_b) {
    test_case c;
    make_matmul(&c, EB_F32, M, N, K, 0, transpose_b, 0, DENSE);
    case_timed(&c, 12.0 * (double)(M * N * K), "6 x %ld x %ld x %ld transpose_b %d", (long)M, (long)K, (long)N, transpose_b);
    visit_case(v, &c);
}

void cases_matmul(case_visitor *v) {
    static const int64_t shapes[][3] = {{1, 1, 1},   {0, 5, 3},   {3, 0, 2},    {4, 6, 0},   {13, 31, 5},  {14, 32, 16},
                                        {15, 33, 17}, {7, 16, 64}, {40, 48, 20}, {33, 65, 32}, {29, 90, 1030},
                                        {1, 1, 9000}, {1, 700, 1030}, {70, 1, 300}, {4, 4, 4}, {3, 1, 3}, {1, 300, 0},
                                        {300, 1, 1}, {200, 9, 300}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int variant = 0; variant < 4; variant++)
            for (int dtype = EB_F32; dtype <= EB_F64; dtype++) {
                test_case c;
                make_matmul(&c, (eb_dtype)dtype, shapes[i][0], shapes[i][1], shapes[i][2], variant & 1, variant >> 1, (int)i % 3,
                            (layout)(i % 4));
                visit_case(v, &c);
            }
    for (int i = 0; i < 2; i++) {
        test_case c;
        make_matmul(&c, EB_F32, 20, 40, 12, 0, 1, 0, DENSE);
        case_specials(&c, i);
        c.tolerance = 1e-5;
        visit_case(v, &c);
    }
    for (int i = 0; i < 8; i++) {
        test_case c;
        make_matmul(&c, EB_F32, i & 1 ? 3 : 0, i & 2 ? 3 : 0, i & 4 ? 3 : 0, 0, 0, 2, DENSE);
        visit_case(v, &c);
    }
    time_matmul(v, 128, 128, 64, 1);
    time_matmul(v, 128, 64, 128, 0);
    time_matmul(v, 512, 512, 512, 0);
    time_matmul(v, 16, 768, 768, 0);
}
