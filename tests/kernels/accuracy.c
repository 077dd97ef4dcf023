/* Errors of the elementary functions in units of the last place, against the C library's functions of doubles. What is
 * promised here stands in csrc/kernels/vector/{math,logarithm,circular}.h and in docs/kernels.md.
 *   KERNELS_VERBOSE=1   say what was measured
 *   KERNELS_SWEEP=n     take every n-th of the floats instead of few of them; 1: all, which takes hours */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "functions.h"
#include "suite.h"

enum { POINTS = 40000 };

static double exact_gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double exact_gelu_tanh(double x) { return x / (1 + exp(-1.5957691216057307117 * (x + 0.044715 * x * x * x))); }
static double exact_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double exact_silu(double x) { return x / (1 + exp(-x)); }
static double exact_sign(double x) { return (x > 0) - (x < 0); }

/* `floor`: values below it are held to the same absolute error. Ranges of infinities have all floats in them, NaN too. */
static const struct {
    const char *op;
    int64_t attribute;
    double (*exact)(double);
    float from, to;
    double ulps, floor;
} promises[] = {
    {"exp", 0, exp, -INFINITY, INFINITY, 2, 0},
    {"expm1", 0, expm1, -INFINITY, INFINITY, 2, 0},
    {"log", 0, log, -INFINITY, INFINITY, 2, 0},
    {"log1p", 0, log1p, -INFINITY, INFINITY, 2, 0},
    {"sin", 0, sin, -INFINITY, INFINITY, 2, 0},
    {"cos", 0, cos, -INFINITY, INFINITY, 2, 0},
    {"exp2", 0, exp2, -INFINITY, INFINITY, 3, 0},
    {"log2", 0, log2, -INFINITY, INFINITY, 3, 0},
    {"tan", 0, tan, -INFINITY, INFINITY, 4, 0},
    {"atan", 0, atan, -INFINITY, INFINITY, 3, 0},
    {"sinh", 0, sinh, -INFINITY, INFINITY, 4, 0},
    {"cosh", 0, cosh, -INFINITY, INFINITY, 4, 0},
    {"tanh", 0, tanh, -INFINITY, INFINITY, 3, 0},
    {"erf", 0, erf, -INFINITY, INFINITY, 3, 0},
    {"sigmoid", 0, exact_sigmoid, -86, INFINITY, 3, 0},
    {"silu", 0, exact_silu, -80, 30, 3, 0},
    {"gelu", EB_GELU_APPROXIMATE_NONE, exact_gelu, -8, 8, 3, 1},
    {"gelu", EB_GELU_APPROXIMATE_TANH, exact_gelu_tanh, -8, 8, 4, 1},
    {"sqrt", 0, sqrt, 0, INFINITY, 0.5, 0},
    {"sign", 0, exact_sign, -INFINITY, INFINITY, 0, 0},
    {"floor", 0, floor, -INFINITY, INFINITY, 0, 0},
    {"ceil", 0, ceil, -INFINITY, INFINITY, 0, 0},
    {"round", 0, nearbyint, -INFINITY, INFINITY, 0, 0},
    {"trunc", 0, trunc, -INFINITY, INFINITY, 0, 0},
};

/* The error of y, in steps of float's grid at the exact value. An infinity counts as the 2^128 that it stands for; NaN in
 * place of a number, or the other way round, as infinitely wrong. */
double error_in_ulps(float y, double exact, double floor) {
    if (isnan(y) || isnan(exact)) return isnan(y) && isnan(exact) ? 0 : INFINITY;
    exact = fmax(-0x1p128, fmin(0x1p128, exact));
    double value = isinf(y) ? copysign(0x1p128, y) : y, size = fmin(fmax(fabs(exact), floor), 0x1.fffffep127);
    int exponent;
    frexp(size, &exponent);
    return fabs(value - exact) / ldexp(1, (exponent < -125 || size == 0 ? -125 : exponent) - 24);
}

static int wrong_zero(float y, double exact) { return y == 0 && (float)exact == 0 && !signbit(y) != !signbit(exact); }

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

/* One unary kernel over the points in `c`; the worst error so far goes to *worst and *at. */
static void measure(test_case *c, const prepared *p, size_t promise, double *worst, float *at) {
    const float *x = c->data[0], *y = c->data[1];
    eb_run(&p->node, 0, 1, p->bases, 1, NULL, NULL);
    for (int n = 0; n < POINTS; n++) {
        double exact = promises[promise].exact(x[n]), error = error_in_ulps(y[n], exact, promises[promise].floor);
        if (promises[promise].floor == 0 && wrong_zero(y[n], exact)) error = INFINITY;
        if (error > *worst) *worst = error, *at = x[n];
    }
}

/* Points: all over the range by value, then all over the floats by their bits. */
static void check_promise(size_t i) {
    float from = fmaxf(promises[i].from, -100), to = fminf(promises[i].to, 100);
    uint64_t stride = getenv("KERNELS_SWEEP") ? strtoull(getenv("KERNELS_SWEEP"), NULL, 10) : (1ull << 32) / POINTS + 1;
    int all = isinf(promises[i].from) && isinf(promises[i].to);
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.op, promises[i].op) != 0 || !runs_here(k)) continue;
        test_case c;
        prepared p;
        make_unary(&c, promises[i].op, 1, POINTS, DENSE);
        c.ints[0] = promises[i].attribute;
        case_fill(&c);
        if (case_prepare(&c, k, 1, &p) == EB_OK) {
            double worst = 0;
            float at = 0, *x = c.data[0];
            for (int n = 0; n < POINTS; n++)
                x[n] = n % 4 ? from + (to - from) * (float)random_unit() : ldexpf((float)random_unit(), -(int)random_below(30));
            measure(&c, &p, i, &worst, &at);
            for (uint64_t bits = 0; bits < 1ull << 32;) {
                for (int n = 0; n < POINTS; n++, bits += stride) {
                    x[n] = float_of(bits < 1ull << 32 ? (uint32_t)bits : 0x7f800000u + (uint32_t)(n % 2 ? 0x80000000u : 0));
                    if (!all && !(x[n] >= promises[i].from && x[n] <= promises[i].to)) x[n] = promises[i].to;
                }
                measure(&c, &p, i, &worst, &at);
            }
            if (worst > promises[i].ulps) fail("%s at %.9g: %.2f ulp, promised %.1f", info.name, at, worst, promises[i].ulps);
            if (getenv("KERNELS_VERBOSE")) printf("%s: %.2f ulp at %.9g\n", info.name, worst, at);
        }
        prepared_free(&p);
        case_end(&c);
    }
}

/* --- pow ----------------------------------------------------------------------------------------------------------- */

static const float special[] = {NAN,   INFINITY, 0.0f, 1e-45f, 1e-40f,   0x1p-126f, 0.25f,        0.5f, 0.9999999f, 1.0f,       1.0000001f,
                                1.5f,  2.0f,     2.5f, 3.0f,   16777213, 16777216,  3.402823e38f, 127,  128,        149.0f,     150};
enum { SPECIAL = 2 * sizeof special / sizeof special[0] };
static float special_of(int i) { return i % 2 ? -special[i / 2] : special[i / 2]; }

/* Every special base to every special power; then bases all over the floats to powers of which most stay in range. */
static void fill_pow(float *x, float *y) {
    for (int n = 0; n < POINTS; n++) {
        if (n < SPECIAL * SPECIAL) {
            x[n] = special_of(n % SPECIAL);
            y[n] = special_of(n / SPECIAL);
            continue;
        }
        x[n] = n % 3 ? float_of((uint32_t)(random_unit() * 0x1p31)) : (float)(0.5 + random_unit());
        y[n] = (float)((random_unit() * 2 - 1) * (n % 3 ? 152 / fmax(1e-3, fabs(log2(x[n]))) : 300));
        if (n % 5 == 0) x[n] = (float)random_below(12) - 6, y[n] = (float)random_below(12) - 6;
    }
}

/* `power`: one for all bases, or 0: each its own. */
static void check_pow(float power, double ulps) {
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.op, "pow") != 0 || !runs_here(k)) continue;
        test_case c;
        prepared p;
        make_binary(&c, "pow", 1, POINTS, 0, 0);
        case_fill(&c);
        float *x = c.data[0], *y = c.data[1], *z = c.data[2], at = 0, to = 0;
        fill_pow(x, y);
        if (power) c.operands[1].shape[1] = 1, y[0] = power;
        if (case_prepare(&c, k, 1, &p) == EB_OK) {
            double worst = 0;
            eb_run(&p.node, 0, 1, p.bases, 1, NULL, NULL);
            for (int n = 0; n < POINTS; n++) {
                double exact = pow(x[n], y[power ? 0 : n]), error = error_in_ulps(z[n], exact, 0);
                int is_whole = exact == rint(exact) && fabs(exact) < 16777216;
                if (wrong_zero(z[n], exact) || (is_whole && z[n] != exact)) error = INFINITY;
                if (error > worst) worst = error, at = x[n], to = y[power ? 0 : n];
            }
            if (worst > ulps) fail("%s at %.9g to the power %.9g: %.3f ulp, promised %.0f", info.name, at, to, worst, ulps);
            if (getenv("KERNELS_VERBOSE")) printf("%s: %.4f ulp at %.9g, %.9g\n", info.name, worst, at, to);
        }
        prepared_free(&p);
        case_end(&c);
    }
}

/* --- functions inside of kernels ------------------------------------------------------------------------------------ */

/* 2^x and e^x where results are normal, and 0 below, as softmax and attention may have it; in between either. `floor` as
 * above; erfc is good to an absolute error alone, which its callers take from 1. */
static void check_function(const char *isa, const char *name, vector_function function, double (*exact)(double), float from,
                           float zero_below, double ulps, double floor) {
    enum { COUNT = 1 << 14 };
    static float x[COUNT], y[COUNT];
    double worst = 0;
    float at = 0;
    for (int round = 0; round < 4; round++) {
        for (int n = 0; n < COUNT; n++)
            x[n] = from * (float)(n + random_unit()) / COUNT * (round % 2 ? ldexpf(1, -(int)random_below(30)) : 1);
        if (round == 0) x[0] = 0.0f, x[1] = -0.0f, x[2] = from;
        function(x, y, COUNT);
        for (int n = 0; n < COUNT; n++) {
            double error = error_in_ulps(y[n], exact(x[n]), floor);
            if (error > worst) worst = error, at = x[n];
        }
    }
    if (worst > ulps) fail("%s of %s at %.9g: %.2f ulp, promised %.1f", name, isa, at, worst, ulps);
    if (getenv("KERNELS_VERBOSE")) printf("%s of %s: %.2f ulp at %.9g\n", name, isa, worst, at);
    for (int n = 0; n < COUNT; n++) x[n] = n % 3 ? zero_below * (1 + (float)n) : -INFINITY;
    x[0] = NAN;
    function(x, y, COUNT);
    if (!isnan(y[0])) fail("%s of %s makes %g of NaN", name, isa, y[0]);
    for (int n = 1; n < COUNT && zero_below < 0; n++)
        if (y[n] != 0) fail("%s of %s at %.9g: %g, promised 0", name, isa, x[n], y[n]), n = COUNT;
}

static void check_functions(void) {
    const struct {
        const char *isa;
        const functions *f;
    } sets[] = {
#define ROW(isa) {#isa, &functions_##isa},
        EB_VECTOR_ISAS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (!is_isa_here(sets[i].isa)) continue;
        const functions *f = sets[i].f;
        check_function(sets[i].isa, "exp_nonpositive", f->exp_nonpositive, exp, -87.3f, -87.7f, 2, 0);
        check_function(sets[i].isa, "exp2_nonpositive", f->exp2_nonpositive, exp2, -126, -126.6f, 3, 0);
        check_function(sets[i].isa, "erfc", f->erfc, erfc, 4.2f, 0, 4, 1);
    }
}

void test_accuracy(void) {
    for (size_t i = 0; i < sizeof promises / sizeof promises[0]; i++) check_promise(i);
    check_pow(0, 1);
    check_pow(2, 1);
    check_pow(3, 2);
    check_functions();
}
