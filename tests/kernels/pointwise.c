/* Pointwise kernels: broadcasts and edges against the reference. Their errors in ulp: accuracy.c. */
#include <string.h>

#include "iterate.h"
#include "suite.h"

void make_unary(test_case *c, const char *op, int64_t rows, int64_t n, layout how) {
    case_begin(c, op, 1e-6, "rows=%ld n=%ld layout=%d", (long)rows, (long)n, (int)how);
    case_input(c, EB_F32, how, 6, SHAPE(rows, n));
    case_output(c, EB_F32, DENSE, SHAPE(rows, n));
    c->node.n_ints = 1; /* gelu's approximation; the others have none */
}

void make_binary(test_case *c, const char *op, int64_t rows, int64_t n, int a_kind, int b_kind) {
    const int64_t shapes[4][2] = {{rows, n}, {1, n}, {rows, 1}, {1, 1}};
    case_begin(c, op, 1e-6, "rows=%ld n=%ld kinds=%d,%d", (long)rows, (long)n, a_kind, b_kind);
    case_input(c, EB_F32, DENSE, 3, 2, shapes[a_kind]);
    case_input(c, EB_F32, DENSE, 3, 2, shapes[b_kind]);
    int64_t out[] = {a_kind % 2 && b_kind % 2 ? 1 : rows, a_kind / 2 && b_kind / 2 ? 1 : n};
    case_output(c, EB_F32, DENSE, 2, out);
}

static void add_where(case_visitor *v, eb_dtype dtype, int64_t rows, int64_t n, int kind) {
    test_case c;
    case_begin(&c, "where", 0, "type %d rows=%ld n=%ld kind=%d", (int)dtype, (long)rows, (long)n, kind);
    case_input(&c, EB_BOOL, DENSE, 2, SHAPE(kind == 1 ? 1 : rows, kind == 2 ? 1 : n));
    case_input(&c, dtype, DENSE, 3, SHAPE(rows, n));
    if (kind)
        case_input(&c, dtype, DENSE, 3, SCALAR);
    else
        case_input(&c, dtype, DENSE, 3, SHAPE(n));
    case_output(&c, dtype, DENSE, SHAPE(rows, n));
    visit_case(v, &c);
}

/* --- programs ---------------------------------------------------------------------------------------------------- */

static void add_step(test_case *c, int64_t code, int64_t a, int64_t b, int64_t third) {
    const int64_t step[] = {code, a, b, third};
    memcpy(c->ints + c->node.n_ints, step, sizeof step);
    c->node.n_ints += 4;
}

/* relu(x * scale + bias) * gate - x: five steps over two arrays, a row and a value. */
void make_chain(test_case *c, int64_t rows, int64_t n) {
    case_begin(c, "pointwise", 1e-6, "chain of five rows=%ld n=%ld", (long)rows, (long)n);
    case_input(c, EB_F32, DENSE, 3, SHAPE(rows, n));
    case_input(c, EB_F32, DENSE, 3, SCALAR);
    case_input(c, EB_F32, DENSE, 3, SHAPE(n));
    case_input(c, EB_F32, DENSE, 3, SHAPE(rows, n));
    case_output(c, EB_F32, DENSE, SHAPE(rows, n));
    add_step(c, EB_POINTWISE_PROGRAM_MUL, 0, 1, -1);
    add_step(c, EB_POINTWISE_PROGRAM_ADD, 4, 2, -1);
    add_step(c, EB_POINTWISE_PROGRAM_RELU, 5, -1, -1);
    add_step(c, EB_POINTWISE_PROGRAM_MUL, 6, 3, -1);
    add_step(c, EB_POINTWISE_PROGRAM_SUB, 7, 0, -1);
}

/* Every step's code in the middle of a program that keeps an earlier result for later. */
static void add_each_step(case_visitor *v, int64_t rows, int64_t n, layout how) {
    for (int64_t code = 0; code <= EB_POINTWISE_PROGRAM_WHERE; code++) {
        test_case c;
        case_begin(&c, "pointwise", 2e-6, "step %ld rows=%ld n=%ld", (long)code, (long)rows, (long)n);
        case_input(&c, EB_F32, how, 3, SHAPE(rows, n));
        case_input(&c, EB_BOOL, DENSE, 2, SHAPE(rows, 1));
        case_input(&c, EB_F32, DENSE, 3, SHAPE(n));
        case_output(&c, EB_F32, DENSE, SHAPE(rows, n));
        add_step(&c, EB_POINTWISE_PROGRAM_SUB, 0, 2, -1); /* 3 */
        add_step(&c, EB_POINTWISE_PROGRAM_ABS, 3, -1, -1); /* 4 */
        if (code == EB_POINTWISE_PROGRAM_WHERE)
            add_step(&c, code, 1, 3, 4);
        else
            add_step(&c, code, 4, code < EB_POINTWISE_PROGRAM_ADD ? -1 : 3, -1); /* 5 */
        add_step(&c, EB_POINTWISE_PROGRAM_WHERE, 1, 5, 3); /* 6 */
        add_step(&c, EB_POINTWISE_PROGRAM_MAXIMUM, 6, 3, -1);
        visit_case(v, &c);
    }
}

static void put_few_values(test_case *c, int64_t i, int64_t b) {
    (void)b;
    for (int64_t j = 0; j < c->bytes[i] / 4; j++) ((float *)c->data[i])[j] = (float)random_below(3) - 1;
}

/* Choices by a comparison: of inputs, with the step before as the second choice, as the first, or read by two steps; and of a
 * step, whose result is the block. */
static void add_choices(case_visitor *v, int64_t rows, int64_t n, int64_t y_size) {
    for (int64_t code = EB_POINTWISE_PROGRAM_EQ; code <= EB_POINTWISE_PROGRAM_GE; code++)
        for (int kind = 0; kind < 4; kind++) {
            test_case c;
            case_begin(&c, "pointwise", 0, "choice by step %ld rows=%ld n=%ld of %ld kind=%d", (long)code, (long)rows, (long)n, (long)y_size, kind);
            case_input(&c, EB_F32, DENSE, 3, SHAPE(rows, n));
            case_input(&c, EB_F32, DENSE, 3, SHAPE(y_size));
            case_input(&c, EB_F32, DENSE, 3, SHAPE(rows, 1));
            case_output(&c, EB_F32, DENSE, SHAPE(rows, n));
            case_edit(&c, put_few_values, 0, 0);
            case_edit(&c, put_few_values, 1, 0);
            case_specials(&c, 0);
            if (kind < 3) {
                add_step(&c, code, 0, 1, -1); /* 3 */
                add_step(&c, EB_POINTWISE_PROGRAM_MUL, 0, 2, -1); /* 4 */
                add_step(&c, EB_POINTWISE_PROGRAM_WHERE, 3, kind == 1 ? 4 : 0, kind == 1 ? 0 : 4); /* 5 */
                if (kind == 2) add_step(&c, EB_POINTWISE_PROGRAM_WHERE, 3, 5, 1);
            } else {
                add_step(&c, EB_POINTWISE_PROGRAM_MUL, 0, 2, -1); /* 3 */
                add_step(&c, code, 3, 1, -1); /* 4 */
                add_step(&c, EB_POINTWISE_PROGRAM_WHERE, 4, 0, 3);
            }
            visit_case(v, &c);
        }
}

/* where(0 < x, x, bias) * c, from any type and to any, c a truth value that is read twice. */
static void add_casts(case_visitor *v, int64_t rows, int64_t n, layout how) {
    for (int32_t dtype = 0; dtype <= EB_BOOL; dtype++) {
        test_case c;
        case_begin(&c, "pointwise", 2e-6, "from type %d rows=%ld n=%ld", dtype, (long)rows, (long)n);
        case_input(&c, dtype, how, 3, SHAPE(rows, n));
        case_input(&c, dtype, DENSE, 3, SHAPE(rows, 1));
        case_input(&c, EB_F32, DENSE, 3, SHAPE(n));
        case_output(&c, dtype, DENSE, SHAPE(rows, n));
        add_step(&c, EB_POINTWISE_PROGRAM_TO_FLOAT32, 0, -1, -1); /* 3 */
        add_step(&c, EB_POINTWISE_PROGRAM_TO_FLOAT32, 1, -1, -1); /* 4 */
        add_step(&c, EB_POINTWISE_PROGRAM_LT, 4, 3, -1); /* 5 */
        add_step(&c, EB_POINTWISE_PROGRAM_TO_FLOAT32, 5, -1, -1); /* 6 */
        add_step(&c, EB_POINTWISE_PROGRAM_WHERE, 5, 3, 2); /* 7 */
        add_step(&c, EB_POINTWISE_PROGRAM_MUL, 7, 6, -1); /* 8 */
        if (dtype != EB_F32) add_step(&c, EB_POINTWISE_PROGRAM_TO_FLOAT32 + dtype, 8, -1, -1);
        visit_case(v, &c);
    }
}

void cases_pointwise(case_visitor *v) {
    test_case c;
    for (int64_t n = 0; n <= 300; n += 1 + n) add_casts(v, 3, n, (layout)(n % 4));
    for (int64_t n = 0; n <= 40; n += 1 + n % 3) add_each_step(v, 3, n, (layout)(n % 4));
    for (int64_t n = 1; n <= 300; n += 2 * n) {
        add_choices(v, 3, n, 1);
        add_choices(v, 2, n, n);
    }
    static const int64_t sizes[][2] = {{1, 511}, {2, 512}, {3, 513}, {1, 16385}, {2, 33000}, {700, 50}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int place = 0; place < 3; place++) {
            make_chain(&c, sizes[i][0], sizes[i][1]);
            case_specials(&c, 0);
            c.in_place = (int[]){-1, 0, 3}[place];
            visit_case(v, &c);
        }
    for (int i = 0; i < STREAMS; i++) {
        const int64_t rows = streams[i][0], n = streams[i][1];
        make_chain(&c, rows, n);
        case_timed(&c, 5.0 * (double)(rows * n), "%ld x %ld chain of 5", (long)rows, (long)n);
        visit_case(v, &c);
    }
}

/* --- comparisons, tests and casts ---------------------------------------------------------------------------------- */

/* Comparisons and tests: equal values among the operands, specials, runs longer than a tile. */
static void add_comparison(case_visitor *v, int64_t rows, int64_t n, int kind) {
    test_case c;
    int operands = v->op[0] == 'i' ? 1 : 2; /* isnan, isinf; eq ... */
    case_begin(&c, v->op, 0, "rows=%ld n=%ld kind=%d", (long)rows, (long)n, kind);
    for (int i = 0; i < operands; i++) {
        int is_value = kind == 1 + i, is_row = kind == 3 && i == 1;
        case_input(&c, EB_F32, DENSE, 3, SHAPE(is_value || is_row ? 1 : rows, is_value ? 1 : n));
        case_edit(&c, put_few_values, i, 0);
        case_specials(&c, i);
    }
    int one = operands == 1 && kind == 1;
    case_output(&c, EB_BOOL, DENSE, SHAPE(one ? 1 : rows, one ? 1 : n));
    visit_case(v, &c);
}

/* Floats with fractions and values beyond 32 and 64 bits. */
static void put_wide_values(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    for (int64_t j = 0; j < c->bytes[0] / 8; j++)
        ((float *)c->data[0])[j] = (float)(random_unit() - 0.5) * (j % 2 ? 1e20f : 5);
}

static void make_cast(test_case *c, eb_dtype from, eb_dtype to, int64_t rows, int64_t n, layout how) {
    case_begin(c, "cast", 0, "from=%d to=%d n=%ld layout=%d", (int)from, (int)to, (long)n, (int)how);
    case_input(c, from, how, from == EB_BOOL ? 2 : 1e10, SHAPE(rows, n));
    if (from == EB_F32) case_edit(c, put_wide_values, 0, 0);
    case_output(c, to, DENSE, SHAPE(rows, n));
    c->node.n_ints = 1;
    c->ints[EB_INT_CAST_DTYPE] = to;
}

static void add_cast(case_visitor *v, eb_dtype from, eb_dtype to, int64_t n, layout how) {
    test_case c;
    make_cast(&c, from, to, 3, n, how);
    if (from == EB_F32) case_specials(&c, 0);
    visit_case(v, &c);
}

/* All 65536 halves and bfloats. */
static void put_all_halves(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    for (int i = 0; i < 1 << 16; i++) ((uint16_t *)c->data[0])[i] = (uint16_t)i;
}

/* Floats at, just below and just above each half or bfloat and each middle between two neighbours, with their signs. `drop`:
 * the bits that a float loses. */
static void put_floats_beside_halves(test_case *c, int64_t drop, int64_t b) {
    (void)b;
    for (uint32_t i = 0; i < 1 << 16; i++)
        for (uint32_t j = 0; j < 6; j++) {
            uint32_t size = i & 0x7fff, bits = drop == 16 ? size << 16 : (size << 13) + 0x38000000;
            float denormal = (float)size * 0x1p-24f + (j > 2 ? 0x1p-25f : 0);
            if (drop == 13 && size < 0x400)
                memcpy(&bits, &denormal, 4);
            else if (j > 2)
                bits += 1u << (drop - 1);
            bits = (bits + j % 3 - 1) | (i & 0x8000) << 16; /* around 0 that is a NaN */
            memcpy((float *)c->data[0] + 6 * i + j, &bits, 4);
        }
}

static void add_half_casts(case_visitor *v, eb_dtype half, int drop) {
    test_case c;
    make_cast(&c, half, EB_F32, 1, 1 << 16, DENSE);
    case_edit(&c, put_all_halves, 0, 0);
    visit_case(v, &c);
    make_cast(&c, EB_F32, half, 1 << 16, 6, DENSE);
    case_edit(&c, put_floats_beside_halves, drop, 0);
    visit_case(v, &c);
}

static void time_casts(case_visitor *v, const int64_t *shape) {
    static const eb_dtype types[][2] = {{EB_F32, EB_F16}, {EB_F16, EB_F32}, {EB_F32, EB_BF16}, {EB_BF16, EB_F32}};
    static const char *const names[] = {"f32 to f16", "f16 to f32", "f32 to bf16", "bf16 to f32"};
    for (int i = 0; i < 4; i++) {
        test_case c;
        make_cast(&c, types[i][0], types[i][1], shape[0], shape[1], DENSE);
        case_timed(&c, 0, "%ld x %ld %s", (long)shape[0], (long)shape[1], names[i]);
        visit_case(v, &c);
    }
}

void cases_cast(case_visitor *v) {
    for (int i = 0; i <= EB_BOOL; i++)
        for (int j = 0; j <= EB_BOOL; j++)
            for (int how = DENSE; how <= SCATTERED; how++) {
                add_cast(v, (eb_dtype)i, (eb_dtype)j, 37, (layout)how);
                if (how == DENSE) add_cast(v, (eb_dtype)i, (eb_dtype)j, 9000, DENSE);
            }
    add_half_casts(v, EB_F16, 13);
    add_half_casts(v, EB_BF16, 16);
    for (int i = 0; i < STREAMS; i++) time_casts(v, streams[i]);
}

/* --- every type ---------------------------------------------------------------------------------------------------- */

static const eb_dtype integers[] = {EB_I8, EB_U8, EB_I16, EB_I32, EB_I64};
enum { INTEGERS = sizeof integers / sizeof integers[0] };

/* Full words of bits, many of them equal and at the ends of their type. */
static void put_words(test_case *c, int64_t i, int64_t b) {
    (void)b;
    static const int64_t ends[] = {0, 1, -1, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
    const int64_t size = eb_element_size(c->operands[i].dtype);
    for (int64_t j = 0; j < c->bytes[i] / size; j++) {
        uint64_t bits = (uint64_t)random_below(1 << 24) << 40 ^ (uint64_t)random_below(1 << 24) << 20 ^ (uint64_t)random_below(1 << 24);
        int64_t value = j % 3 ? (int64_t)bits : ends[random_below(7)];
        if (c->operands[i].dtype == EB_F64) value |= 1ll << 51; /* no signalling NaN, whose bits depend on the instructions */
        memcpy((char *)c->data[i] + j * size, &value, (size_t)size); /* the low bytes */
    }
}

/* 1 to 9 in place of 0, or -4 to 68: the widths of a shift. */
static void put_divisors(test_case *c, int64_t is_shift, int64_t b) {
    (void)b;
    const int64_t size = eb_element_size(c->operands[1].dtype);
    for (int64_t j = 0; j < c->bytes[1] / size; j++) {
        char *at = (char *)c->data[1] + j * size;
        int is_zero = 1;
        for (int64_t k = 0; k < size; k++) is_zero &= at[k] == 0;
        const int64_t value = is_shift ? random_below(73) - 4 : 1 + random_below(9);
        if (is_shift || is_zero) memcpy(at, &value, (size_t)size);
    }
}

static int is_unary(const char *op) {
    return strstr(op, "not") || IS_ONE_OF(op, "neg", "abs", "relu", "sign", "sqrt", "rsqrt", "reciprocal", "floor", "ceil", "round", "trunc", "isnan", "isinf");
}

/* Kinds as in make_binary. */
static void add_integer(case_visitor *v, eb_dtype dtype, eb_dtype result, int64_t rows, int64_t n, int kind, int in_place) {
    test_case c;
    int operands = is_unary(v->op) ? 1 : 2;
    case_begin(&c, v->op, 0, "type %d rows=%ld n=%ld kind=%d", (int)dtype, (long)rows, (long)n, kind);
    for (int i = 0; i < operands; i++) {
        int is_value = operands == 2 && kind == 1 + i, is_row = kind == 3 && i == 1;
        case_input(&c, dtype, DENSE, 2, SHAPE(is_value || is_row ? 1 : rows, is_value ? 1 : n));
        if (dtype != EB_BOOL && (dtype != EB_F64 || n % 2)) case_edit(&c, put_words, i, 0);
    }
    if (IS_ONE_OF(v->op, "floor_div", "remainder", "fmod", "shift_left", "shift_right"))
        case_edit(&c, put_divisors, v->op[0] == 's', 0);
    case_output(&c, result, DENSE, SHAPE(rows, n));
    if (in_place && kind == 0 && dtype == result) c.in_place = 0;
    visit_case(v, &c);
}

static void add_integers_of(case_visitor *v, eb_dtype dtype, eb_dtype result) {
    for (int kind = 0; kind < (is_unary(v->op) ? 1 : 4); kind++) {
        for (int64_t n = 1; n < 80; n = 2 * n + 3) add_integer(v, dtype, result, 3, n, kind, n % 2);
        add_integer(v, dtype, result, 2, 20000, kind, 1);
    }
}

/* Integers, and float64 where `has_reals`; `result` -1: of the same type. */
static void add_types(case_visitor *v, int has_reals, int result) {
    for (int i = 0; i < INTEGERS + has_reals; i++) {
        const eb_dtype dtype = i < INTEGERS ? integers[i] : EB_F64;
        add_integers_of(v, dtype, result < 0 ? dtype : (eb_dtype)result);
    }
}

static void time_words(case_visitor *v, eb_dtype dtype, eb_dtype result) {
    for (int i = 0; i < STREAMS; i++) {
        const int64_t rows = streams[i][0], n = streams[i][1];
        test_case c;
        case_begin(&c, v->op, 0, "of words");
        for (int operand = 0; operand < 2; operand++) case_input(&c, dtype, DENSE, 2, SHAPE(rows, n));
        case_output(&c, result, DENSE, SHAPE(rows, n));
        case_timed(&c, (double)(rows * n), "%ld x %ld %s", (long)rows, (long)n, dtype == EB_I64 ? "i64" : "bool");
        visit_case(v, &c);
    }
}

/* --- the providers of ops whose kernels are alike ------------------------------------------------------------------- */

void cases_integer(case_visitor *v) {
    const int is_logical = v->op[0] == 'l'; /* of bools alone; the others are bitwise */
    add_integers_of(v, EB_BOOL, EB_BOOL);
    if (!is_logical) add_types(v, 0, -1);
    if (IS_ONE_OF(v->op, "logical_and")) time_words(v, EB_BOOL, EB_BOOL);
}

void cases_comparison(case_visitor *v) {
    for (int kind = 0; kind < 4; kind++) {
        add_comparison(v, 3, 1 + 20 * kind, kind);
        add_comparison(v, 2, 20000, kind);
    }
    add_integers_of(v, EB_F64, EB_BOOL);
    if (v->op[0] == 'i') return; /* isnan and isinf are of floats */
    add_types(v, 0, EB_BOOL);
    add_integers_of(v, EB_BOOL, EB_BOOL);
    if (IS_ONE_OF(v->op, "eq")) time_words(v, EB_I64, EB_BOOL);
}

void cases_where(case_visitor *v) {
    for (int kind = 0; kind < 3; kind++)
        for (int dtype = 0; dtype <= EB_BOOL; dtype++)
            for (int64_t n = 1; n < 40; n += 3) add_where(v, (eb_dtype)dtype, 7, n, kind);
}

/* Ops that only integers have: shifts, and divisions that cut off. */
void cases_of_integers(case_visitor *v) { add_types(v, 0, -1); }

/* Where log and pow have results: other libraries take a slow way to a NaN. */
static void make_positive(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    float *x = c->data[0];
    for (int64_t n = 0; n < c->bytes[0] / 4; n++) x[n] = x[n] < 0 ? -x[n] : x[n];
}

void cases_unary(case_visitor *v) {
    test_case c;
    for (int64_t n = 0; n <= 35; n += 1 + n % 3) {
        make_unary(&c, v->op, 2, n, (layout)(n % 4));
        c.ints[0] = n % 2;
        visit_case(v, &c);
    }
    make_unary(&c, v->op, 2, 40, DENSE);
    case_specials(&c, 0);
    visit_case(v, &c);
    make_unary(&c, v->op, 3, 40000, DENSE);
    c.in_place = 0;
    visit_case(v, &c);
    if (IS_ONE_OF(v->op, "neg", "abs", "relu", "sign")) add_types(v, 1, -1);
    if (IS_ONE_OF(v->op, "sqrt", "rsqrt", "reciprocal", "floor", "ceil", "round", "trunc")) add_integers_of(v, EB_F64, EB_F64);
    if (!IS_ONE_OF(v->op, "gelu", "exp", "tanh", "relu", "expm1", "log", "log1p", "sin", "floor")) return;
    for (int i = 0; i < STREAMS; i++) {
        const int64_t rows = streams[i][0], n = streams[i][1];
        make_unary(&c, v->op, rows, n, DENSE);
        if (IS_ONE_OF(v->op, "log")) case_edit(&c, make_positive, 0, 0);
        case_timed(&c, (double)(rows * n), "%ld x %ld", (long)rows, (long)n);
        visit_case(v, &c);
    }
}

static void time_binary(case_visitor *v, int b_kind, const char *what) {
    for (int i = 0; i < STREAMS; i++) {
        const int64_t rows = streams[i][0], n = streams[i][1];
        test_case c;
        make_binary(&c, v->op, rows, n, 0, b_kind);
        if (IS_ONE_OF(v->op, "pow")) case_edit(&c, make_positive, 0, 0);
        case_timed(&c, (double)(rows * n), "%ld x %ld%s", (long)rows, (long)n, what);
        visit_case(v, &c);
    }
}

void cases_binary(case_visitor *v) {
    test_case c;
    for (int kinds = 0; kinds < 16; kinds++) {
        make_binary(&c, v->op, 5, 1 + kinds * 5, kinds % 4, kinds / 4);
        visit_case(v, &c);
        make_binary(&c, v->op, 400, 50, kinds % 4, kinds / 4);
        case_specials(&c, kinds % 2);
        visit_case(v, &c);
        make_binary(&c, v->op, kinds % 3, 33000, kinds % 4, kinds / 4);
        visit_case(v, &c);
    }
    if (IS_ONE_OF(v->op, "add", "sub", "mul", "maximum", "minimum")) add_types(v, 1, -1);
    if (IS_ONE_OF(v->op, "fmod", "remainder")) add_types(v, 0, -1);
    if (IS_ONE_OF(v->op, "div")) add_integers_of(v, EB_F64, EB_F64);
    if (IS_ONE_OF(v->op, "add", "pow")) time_binary(v, 0, "");
    if (!IS_ONE_OF(v->op, "add")) return;
    time_binary(v, 1, " + 1 row");
    time_words(v, EB_I64, EB_I64);
}
