/* Reference of the pointwise ops: one function an op and kind of number, applied element by element.
 * float32 is computed in double and rounded once. Semantics are torch's. */
#include "../ops.h"
#include "element.h"

#include <stdlib.h>

typedef double (*real1)(double);
typedef double (*real2)(double, double);
typedef int64_t (*integer1)(int64_t);
typedef int64_t (*integer2)(int64_t, int64_t);

/* --- the functions ---------------------------------------------------------------------------------------------- */

static double neg_real(double a) { return -a; }
static int64_t neg_integer(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
static int64_t abs_integer(int64_t a) { return a < 0 ? neg_integer(a) : a; }
static double sign_real(double a) { return (a > 0) - (a < 0); }
static int64_t sign_integer(int64_t a) { return (a > 0) - (a < 0); }
static double rsqrt_real(double a) { return 1 / sqrt(a); }
static double reciprocal_real(double a) { return 1 / a; }
static double sigmoid_real(double a) { return 1 / (1 + exp(-a)); }
static double silu_real(double a) { return a / (1 + exp(-a)); }
static double relu_real(double a) { return a < 0 ? 0 : a; }
static int64_t relu_integer(int64_t a) { return a < 0 ? 0 : a; }
static double gelu_real(double a) { return 0.5 * a * (1 + erf(a * 0.70710678118654752440)); }
static double gelu_tanh_real(double a) {
    return 0.5 * a * (1 + tanh(0.79788456080286535588 * (a + 0.044715 * a * a * a)));
}
static int64_t same_integer(int64_t a) { return a; }

static double add_real(double a, double b) { return a + b; }
static double sub_real(double a, double b) { return a - b; }
static double mul_real(double a, double b) { return a * b; }
static double div_real(double a, double b) { return a / b; }
static double maximum_real(double a, double b) { return isnan(a) || a > b ? a : b; }
static double minimum_real(double a, double b) { return isnan(a) || a < b ? a : b; }
static int64_t add_integer(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t sub_integer(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }
static int64_t mul_integer(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }
static int64_t maximum_integer(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t minimum_integer(int64_t a, int64_t b) { return a < b ? a : b; }

static double remainder_real(double a, double b) {
    double rest = fmod(a, b);
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
static double floor_div_real(double a, double b) {
    if (b == 0) return a / b;
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
    if (quotient == 0) return copysign(0, a / b);
    double floored = floor(quotient);
    return quotient - floored > 0.5 ? floored + 1 : floored;
}
/* The divisor is not 0: the caller has looked. -1 apart, since INT64_MIN / -1 traps. */
static int64_t remainder_integer(int64_t a, int64_t b) {
    int64_t rest = b == -1 ? 0 : a % b;
    return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
static int64_t floor_div_integer(int64_t a, int64_t b) {
    if (b == -1) return neg_integer(a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t fmod_integer(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }
/* Widths beyond the type's own shift everything out by themselves: the value is held in 64 bits. */
static int64_t shift_left_integer(int64_t a, int64_t b) { return b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); }
static int64_t shift_right_integer(int64_t a, int64_t b) { return a >> (b < 0 || b > 63 ? 63 : b); }
static int64_t pow_integer(int64_t a, int64_t b) {
    if (b < 0) return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    uint64_t power = 1, base = (uint64_t)a;
    for (; b; b >>= 1, base *= base)
        if (b & 1) power *= base;
    return (int64_t)power;
}
static int64_t bitwise_and_integer(int64_t a, int64_t b) { return a & b; }
static int64_t bitwise_or_integer(int64_t a, int64_t b) { return a | b; }
static int64_t bitwise_xor_integer(int64_t a, int64_t b) { return a ^ b; }

#define COMPARISON(name, expression)                                        \
    static double name##_real(double a, double b) { return expression; }    \
    static int64_t name##_integer(int64_t a, int64_t b) { return expression; }
COMPARISON(eq, a == b)
COMPARISON(ne, a != b)
COMPARISON(lt, a < b)
COMPARISON(le, a <= b)
COMPARISON(gt, a > b)
COMPARISON(ge, a >= b)
COMPARISON(logical_and, a != 0 && b != 0)
COMPARISON(logical_or, a != 0 || b != 0)
COMPARISON(logical_xor, (a != 0) != (b != 0))

static double logical_not_real(double a) { return a == 0; }
static int64_t logical_not_integer(int64_t a) { return a == 0; }
static double isnan_real(double a) { return isnan(a); }
static double isinf_real(double a) { return isinf(a) != 0; }
static int64_t never_integer(int64_t a) { return a - a; }

/* --- applying them: input 0 is x or a, input 1 is b -------------------------------------------------------------- */

static eb_status plan_pointwise(eb_node *node) {
    int first = node->n_inputs == 3 ? EB_IN_WHERE_A : 0; /* where: its condition is bool, the others agree */
    for (int i = first; i < node->n_inputs; i++)
        if (eb_input(node, i)->dtype != eb_input(node, first)->dtype) return EB_NOT_APPLICABLE;
    node->tiles = eb_ceil_div(eb_size(eb_output(node)), EB_REFERENCE_TILE);
    return EB_OK;
}

static eb_loop pointwise_loop(const eb_node *node) {
    const eb_tensor *tensors[EB_LOOP_OPERANDS] = {eb_output(node)};
    for (int i = 0; i < node->n_inputs; i++) tensors[i + 1] = eb_input(node, i);
    return eb_loop_broadcast(eb_output(node), node->n_inputs + 1, tensors);
}

/* Walk a tile: `body` sees the position `p[o]` of the element in each operand, the output's first. */
#define EB_WALK(loop, tile_begin, tile_end, body)                                                          \
    {                                                                                                      \
        int64_t flat = (tile_begin)*EB_REFERENCE_TILE;                                                     \
        int64_t flat_end = eb_min((loop).count, (tile_end)*EB_REFERENCE_TILE);                             \
        eb_cursor cursor;                                                                                  \
        eb_cursor_seek(&(loop), &cursor, flat);                                                            \
        while (flat < flat_end) {                                                                          \
            int64_t run = eb_cursor_run(&(loop), &cursor, flat_end - flat), p[EB_LOOP_OPERANDS];           \
            for (int64_t i = 0; i < run; i++) {                                                            \
                for (int o = 0; o < (loop).operands; o++)                                                  \
                    p[o] = cursor.offset[o] + i * (loop).stride[o][(loop).rank - 1];                       \
                body                                                                                       \
            }                                                                                              \
            eb_cursor_advance(&(loop), &cursor, run);                                                      \
            flat += run;                                                                                   \
        }                                                                                                  \
    }

static eb_status run1(const eb_node *node, void *const *bases, int64_t begin, int64_t end, real1 real, integer1 integer) {
    const eb_tensor *a = eb_input(node, 0), *y = eb_output(node);
    const void *a_data = eb_data(a, bases);
    void *y_data = eb_data(y, bases);
    int is_real = eb_is_real(a->dtype);
    eb_loop loop = pointwise_loop(node);
    EB_WALK(loop, begin, end, {
        double value = is_real ? real(eb_load_real(a->dtype, a_data, p[1])) : 0;
        int64_t whole = is_real ? 0 : integer(eb_load_int(a->dtype, a_data, p[1]));
        eb_store_any(y->dtype, y_data, p[0], is_real, value, whole);
    })
    return EB_OK;
}

static eb_status run2(const eb_node *node, void *const *bases, int64_t begin, int64_t end, real2 real, integer2 integer) {
    const eb_tensor *a = eb_input(node, 0), *b = eb_input(node, 1), *y = eb_output(node);
    const void *a_data = eb_data(a, bases), *b_data = eb_data(b, bases);
    void *y_data = eb_data(y, bases);
    int is_real = eb_is_real(a->dtype), divides = integer == floor_div_integer || integer == remainder_integer || integer == fmod_integer;
    eb_loop loop = pointwise_loop(node);
    EB_WALK(loop, begin, end, {
        if (is_real) {
            double value = real(eb_load_real(a->dtype, a_data, p[1]), eb_load_real(a->dtype, b_data, p[2]));
            eb_store_any(y->dtype, y_data, p[0], 1, value, 0);
        } else {
            int64_t right = eb_load_int(a->dtype, b_data, p[2]);
            if (divides && right == 0) return EB_DIVISION_BY_ZERO;
            eb_store_any(y->dtype, y_data, p[0], 0, 0, integer(eb_load_int(a->dtype, a_data, p[1]), right));
        }
    })
    return EB_OK;
}

static eb_status run_where(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *y = eb_output(node);
    const uint8_t *condition = eb_data(eb_input(node, EB_IN_WHERE_CONDITION), bases);
    const char *a = eb_data(eb_input(node, EB_IN_WHERE_A), bases), *b = eb_data(eb_input(node, EB_IN_WHERE_B), bases);
    char *y_data = eb_data(y, bases);
    int64_t size = eb_element_size(y->dtype);
    eb_loop loop = pointwise_loop(node);
    EB_WALK(loop, begin, end, {
        memcpy(y_data + p[0] * size, condition[p[1]] ? a + p[2] * size : b + p[3] * size, (size_t)size);
    })
    return EB_OK;
}

static double same_real(double a) { return a; }

static eb_status run_gelu(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    int is_tanh = node->ints[EB_INT_GELU_APPROXIMATE] == EB_GELU_APPROXIMATE_TANH;
    return run1(node, bases, begin, end, is_tanh ? gelu_tanh_real : gelu_real, NULL);
}

/* ~ of a bool is its logical not. */
static int64_t bitwise_not_integer(int64_t a) { return ~a; }
static eb_status run_bitwise_not(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const int is_bool = eb_input(node, EB_IN_BITWISE_NOT_X)->dtype == EB_BOOL;
    integer1 function = is_bool ? logical_not_integer : bitwise_not_integer;
    return run1(node, bases, begin, end, NULL, function);
}

/* --- a program of the above, one element at a time ---------------------------------------------------------------- */

typedef struct {
    real1 one;
    real2 two;
} program_function; /* both NULL: where */

static const program_function program_functions[] = {
    [EB_POINTWISE_PROGRAM_NEG] = {.one = neg_real},
    [EB_POINTWISE_PROGRAM_ABS] = {.one = fabs},
    [EB_POINTWISE_PROGRAM_SQRT] = {.one = sqrt},
    [EB_POINTWISE_PROGRAM_RSQRT] = {.one = rsqrt_real},
    [EB_POINTWISE_PROGRAM_RECIPROCAL] = {.one = reciprocal_real},
    [EB_POINTWISE_PROGRAM_EXP] = {.one = exp},
    [EB_POINTWISE_PROGRAM_TANH] = {.one = tanh},
    [EB_POINTWISE_PROGRAM_SIGMOID] = {.one = sigmoid_real},
    [EB_POINTWISE_PROGRAM_ERF] = {.one = erf},
    [EB_POINTWISE_PROGRAM_RELU] = {.one = relu_real},
    [EB_POINTWISE_PROGRAM_SILU] = {.one = silu_real},
    [EB_POINTWISE_PROGRAM_SIGN] = {.one = sign_real},
    [EB_POINTWISE_PROGRAM_EXPM1] = {.one = expm1},
    [EB_POINTWISE_PROGRAM_LOG] = {.one = log},
    [EB_POINTWISE_PROGRAM_LOG1P] = {.one = log1p},
    [EB_POINTWISE_PROGRAM_SIN] = {.one = sin},
    [EB_POINTWISE_PROGRAM_COS] = {.one = cos},
    [EB_POINTWISE_PROGRAM_FLOOR] = {.one = floor},
    [EB_POINTWISE_PROGRAM_CEIL] = {.one = ceil},
    [EB_POINTWISE_PROGRAM_ROUND] = {.one = nearbyint},
    [EB_POINTWISE_PROGRAM_TRUNC] = {.one = trunc},
    [EB_POINTWISE_PROGRAM_GELU] = {.one = gelu_real},
    [EB_POINTWISE_PROGRAM_GELU_TANH] = {.one = gelu_tanh_real},
    [EB_POINTWISE_PROGRAM_ISNAN] = {.one = isnan_real},
    [EB_POINTWISE_PROGRAM_ISINF] = {.one = isinf_real},
    [EB_POINTWISE_PROGRAM_EQ] = {.two = eq_real},
    [EB_POINTWISE_PROGRAM_NE] = {.two = ne_real},
    [EB_POINTWISE_PROGRAM_LT] = {.two = lt_real},
    [EB_POINTWISE_PROGRAM_LE] = {.two = le_real},
    [EB_POINTWISE_PROGRAM_GT] = {.two = gt_real},
    [EB_POINTWISE_PROGRAM_GE] = {.two = ge_real},
    [EB_POINTWISE_PROGRAM_ADD] = {.two = add_real},
    [EB_POINTWISE_PROGRAM_SUB] = {.two = sub_real},
    [EB_POINTWISE_PROGRAM_MUL] = {.two = mul_real},
    [EB_POINTWISE_PROGRAM_DIV] = {.two = div_real},
    [EB_POINTWISE_PROGRAM_MAXIMUM] = {.two = maximum_real},
    [EB_POINTWISE_PROGRAM_MINIMUM] = {.two = minimum_real},
    [EB_POINTWISE_PROGRAM_POW] = {.two = pow},
    [EB_POINTWISE_PROGRAM_WHERE] = {NULL, NULL},
}; /* casts follow */
enum { PROGRAM_STEPS = 16, PROGRAM_INPUTS = EB_LOOP_OPERANDS - 1 }; /* as in engine/targets/cpu/passes/fuse_pointwise.py */

static eb_status plan_program(eb_node *node) {
    if (node->n_inputs > PROGRAM_INPUTS || node->n_ints > 4 * PROGRAM_STEPS) return EB_NOT_APPLICABLE;
    node->tiles = eb_ceil_div(eb_size(eb_output(node)), EB_REFERENCE_TILE);
    return EB_OK;
}

static double program_step(const int64_t *step, const double *values) {
    if (step[0] > EB_POINTWISE_PROGRAM_WHERE) return values[step[1]];
    program_function function = program_functions[step[0]];
    if (function.one) return function.one(values[step[1]]);
    if (function.two) return function.two(values[step[1]], values[step[2]]);
    return values[step[1]] != 0 ? values[step[2]] : values[step[3]];
}

/* Each step rounds to float32, as the op alone would. */
static eb_status run_program(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    int inputs = node->n_inputs, steps = node->n_ints / 4;
    const int32_t dtype = eb_output(node)->dtype;
    void *y = eb_data(eb_output(node), bases);
    eb_loop loop = pointwise_loop(node);
    double values[PROGRAM_INPUTS + PROGRAM_STEPS];
    EB_WALK(loop, begin, end, {
        for (int j = 0; j < inputs; j++) {
            const eb_tensor *x = eb_input(node, j);
            const void *data = eb_data(x, bases);
            values[j] = eb_is_real(x->dtype) ? eb_load_real(x->dtype, data, p[j + 1]) : (double)eb_load_int(x->dtype, data, p[j + 1]);
        }
        for (int s = 0; s < steps; s++) values[inputs + s] = (float)program_step(node->ints + 4 * s, values);
        eb_store_any(dtype, y, p[0], 1, values[inputs + steps - 1], 0);
    })
    return EB_OK;
}

/* --- kernels ---------------------------------------------------------------------------------------------------- */

static eb_status plan_real(eb_node *node) {
    return eb_is_real(eb_input(node, 0)->dtype) ? plan_pointwise(node) : EB_NOT_APPLICABLE;
}
static eb_status plan_whole(eb_node *node) {
    return eb_is_real(eb_input(node, 0)->dtype) ? EB_NOT_APPLICABLE : plan_pointwise(node);
}

#define KERNEL(arity, op, plan, real, integer)                                                                     \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run##arity(n, bases, begin, end, real, integer);                                                    \
    }                                                                                                              \
    const eb_kernel any_##op##__generic_reference = {plan, run_##op};

KERNEL(1, neg, plan_pointwise, neg_real, neg_integer)
KERNEL(1, abs, plan_pointwise, fabs, abs_integer)
KERNEL(1, sign, plan_pointwise, sign_real, sign_integer)
KERNEL(1, exp, plan_real, exp, NULL)
KERNEL(1, expm1, plan_real, expm1, NULL)
KERNEL(1, log, plan_real, log, NULL)
KERNEL(1, log1p, plan_real, log1p, NULL)
KERNEL(1, sqrt, plan_real, sqrt, NULL)
KERNEL(1, rsqrt, plan_real, rsqrt_real, NULL)
KERNEL(1, reciprocal, plan_real, reciprocal_real, NULL)
KERNEL(1, exp2, plan_real, exp2, NULL)
KERNEL(1, log2, plan_real, log2, NULL)
KERNEL(1, log10, plan_real, log10, NULL)
KERNEL(1, sin, plan_real, sin, NULL)
KERNEL(1, cos, plan_real, cos, NULL)
KERNEL(1, tan, plan_real, tan, NULL)
KERNEL(1, asin, plan_real, asin, NULL)
KERNEL(1, acos, plan_real, acos, NULL)
KERNEL(1, atan, plan_real, atan, NULL)
KERNEL(1, sinh, plan_real, sinh, NULL)
KERNEL(1, cosh, plan_real, cosh, NULL)
KERNEL(1, asinh, plan_real, asinh, NULL)
KERNEL(1, acosh, plan_real, acosh, NULL)
KERNEL(1, atanh, plan_real, atanh, NULL)
KERNEL(1, tanh, plan_real, tanh, NULL)
KERNEL(1, sigmoid, plan_real, sigmoid_real, NULL)
KERNEL(1, erf, plan_real, erf, NULL)
KERNEL(1, erfc, plan_real, erfc, NULL)
KERNEL(1, relu, plan_pointwise, relu_real, relu_integer)
KERNEL(1, silu, plan_real, silu_real, NULL)
KERNEL(1, floor, plan_pointwise, floor, same_integer)
KERNEL(1, ceil, plan_pointwise, ceil, same_integer)
KERNEL(1, round, plan_pointwise, nearbyint, same_integer)
KERNEL(1, trunc, plan_pointwise, trunc, same_integer)
KERNEL(1, logical_not, plan_pointwise, logical_not_real, logical_not_integer)
KERNEL(1, isnan, plan_pointwise, isnan_real, never_integer)
KERNEL(1, isinf, plan_pointwise, isinf_real, never_integer)
KERNEL(1, cast, plan_pointwise, same_real, same_integer)
KERNEL(2, add, plan_pointwise, add_real, add_integer)
KERNEL(2, sub, plan_pointwise, sub_real, sub_integer)
KERNEL(2, mul, plan_pointwise, mul_real, mul_integer)
KERNEL(2, div, plan_real, div_real, NULL)
KERNEL(2, floor_div, plan_pointwise, floor_div_real, floor_div_integer)
KERNEL(2, remainder, plan_pointwise, remainder_real, remainder_integer)
KERNEL(2, fmod, plan_pointwise, fmod, fmod_integer)
KERNEL(2, atan2, plan_real, atan2, NULL)
KERNEL(2, copysign, plan_real, copysign, NULL)
KERNEL(2, pow, plan_pointwise, pow, pow_integer)
KERNEL(2, maximum, plan_pointwise, maximum_real, maximum_integer)
KERNEL(2, minimum, plan_pointwise, minimum_real, minimum_integer)
KERNEL(2, eq, plan_pointwise, eq_real, eq_integer)
KERNEL(2, ne, plan_pointwise, ne_real, ne_integer)
KERNEL(2, lt, plan_pointwise, lt_real, lt_integer)
KERNEL(2, le, plan_pointwise, le_real, le_integer)
KERNEL(2, gt, plan_pointwise, gt_real, gt_integer)
KERNEL(2, ge, plan_pointwise, ge_real, ge_integer)
KERNEL(2, logical_and, plan_pointwise, logical_and_real, logical_and_integer)
KERNEL(2, logical_or, plan_pointwise, logical_or_real, logical_or_integer)
KERNEL(2, logical_xor, plan_pointwise, logical_xor_real, logical_xor_integer)
KERNEL(2, bitwise_and, plan_whole, NULL, bitwise_and_integer)
KERNEL(2, bitwise_or, plan_whole, NULL, bitwise_or_integer)
KERNEL(2, bitwise_xor, plan_whole, NULL, bitwise_xor_integer)
KERNEL(2, shift_left, plan_whole, NULL, shift_left_integer)
KERNEL(2, shift_right, plan_whole, NULL, shift_right_integer)

const eb_kernel any_where__generic_reference = {plan_pointwise, run_where};
const eb_kernel any_gelu__generic_reference = {plan_real, run_gelu};
const eb_kernel any_bitwise_not__generic_reference = {plan_whole, run_bitwise_not};
const eb_kernel any_pointwise__generic_reference = {plan_program, run_program};
