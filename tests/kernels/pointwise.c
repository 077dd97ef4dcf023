/* Pointwise kernels: broadcasts and edges against the reference. Their errors in ulp: accuracy.c. */
#include <math.h>
#include <string.h>

#include "suite.h"

static const char *const unary[] = {"neg",   "abs",  "sqrt", "rsqrt", "reciprocal", "exp",   "tanh", "sigmoid",
                                    "erf",   "relu", "silu", "gelu",  "sign",       "expm1", "log",  "log1p",
                                    "floor", "ceil", "sin",  "cos",   "round",      "trunc"};
static const char *const binary[] = {"add", "sub", "mul", "div", "maximum", "minimum", "pow"};
enum { UNARY = sizeof unary / sizeof unary[0], BINARY = sizeof binary / sizeof binary[0] };

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

static void check_where(int64_t rows, int64_t n, int kind) {
    test_case c;
    case_begin(&c, "where", 0, "rows=%ld n=%ld kind=%d", (long)rows, (long)n, kind);
    case_input(&c, EB_BOOL, DENSE, 2, SHAPE(kind == 1 ? 1 : rows, kind == 2 ? 1 : n));
    case_input(&c, EB_F32, DENSE, 3, SHAPE(rows, n));
    if (kind)
        case_input(&c, EB_F32, DENSE, 3, SCALAR);
    else
        case_input(&c, EB_F32, DENSE, 3, SHAPE(n));
    case_output(&c, EB_F32, DENSE, SHAPE(rows, n));
    case_check(&c);
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
static void check_each_step(int64_t rows, int64_t n, layout how) {
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
        case_check(&c);
    }
}

static void test_programs(void) {
    test_case c;
    for (int64_t n = 0; n <= 40; n += 1 + n % 3) check_each_step(3, n, (layout)(n % 4));
    static const int64_t sizes[][2] = {{1, 511}, {2, 512}, {3, 513}, {1, 16385}, {2, 33000}, {700, 50}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int place = 0; place < 3; place++) {
            make_chain(&c, sizes[i][0], sizes[i][1]);
            case_specials(&c, 0);
            c.in_place = (int[]){-1, 0, 3}[place];
            case_check(&c);
        }
}

/* Comparisons and tests: equal values among the operands, specials, runs longer than a tile. */
static void check_test(const char *op, int64_t rows, int64_t n, int kind) {
    test_case c;
    int operands = op[0] == 'i' ? 1 : 2; /* isnan, isinf; eq ... */
    case_begin(&c, op, 0, "rows=%ld n=%ld kind=%d", (long)rows, (long)n, kind);
    for (int i = 0; i < operands; i++) {
        int is_value = kind == 1 + i, is_row = kind == 3 && i == 1;
        case_input(&c, EB_F32, DENSE, 3, SHAPE(is_value || is_row ? 1 : rows, is_value ? 1 : n));
        for (int64_t j = 0; j < c.bytes[i] / 4; j++) ((float *)c.data[i])[j] = (float)random_below(3) - 1;
        case_specials(&c, i);
    }
    int one = operands == 1 && kind == 1;
    case_output(&c, EB_BOOL, DENSE, SHAPE(one ? 1 : rows, one ? 1 : n));
    case_check(&c);
}

/* Floats with fractions and values beyond 32 and 64 bits. */
void make_cast(test_case *c, eb_dtype from, eb_dtype to, int64_t rows, int64_t n, layout how) {
    case_begin(c, "cast", 0, "from=%d to=%d n=%ld layout=%d", (int)from, (int)to, (long)n, (int)how);
    case_input(c, from, how, from == EB_BOOL ? 2 : 1e10, SHAPE(rows, n));
    for (int64_t j = 0; from == EB_F32 && j < c->bytes[0] / 8; j++)
        ((float *)c->data[0])[j] = (float)(random_unit() - 0.5) * (j % 2 ? 1e20f : 5);
    case_output(c, to, DENSE, SHAPE(rows, n));
    c->node.n_ints = 1;
    c->ints[EB_INT_CAST_DTYPE] = to;
}

static void check_cast(eb_dtype from, eb_dtype to, int64_t n, layout how) {
    test_case c;
    make_cast(&c, from, to, 3, n, how);
    if (from == EB_F32) case_specials(&c, 0);
    case_check(&c);
}

static void check_tests_and_casts(void) {
    static const char *const tests[] = {"eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf"};
    static const eb_dtype types[] = {EB_F32, EB_I32, EB_I64, EB_BOOL, EB_F16, EB_BF16};
    for (int op = 0; op < 8; op++)
        for (int kind = 0; kind < 4; kind++) {
            check_test(tests[op], 3, 1 + 20 * kind, kind);
            check_test(tests[op], 2, 20000, kind);
        }
    for (int i = 0; i < 36; i++)
        for (int how = DENSE; how <= SCATTERED; how++) {
            check_cast(types[i / 6], types[i % 6], 37, (layout)how);
            if (how == DENSE) check_cast(types[i / 6], types[i % 6], 9000, DENSE);
        }
}

/* All 65536 halves and bfloats as floats; and floats at, just below and just above each of them and each middle between
 * two neighbours, with their signs. */
static void check_half_casts(eb_dtype half, int drop) {
    test_case c;
    make_cast(&c, half, EB_F32, 1, 1 << 16, DENSE);
    for (int i = 0; i < 1 << 16; i++) ((uint16_t *)c.data[0])[i] = (uint16_t)i;
    case_check(&c);
    make_cast(&c, EB_F32, half, 1 << 16, 6, DENSE);
    for (uint32_t i = 0; i < 1 << 16; i++)
        for (uint32_t j = 0; j < 6; j++) {
            uint32_t size = i & 0x7fff, bits = drop == 16 ? size << 16 : (size << 13) + 0x38000000;
            float denormal = (float)size * 0x1p-24f + (j > 2 ? 0x1p-25f : 0);
            if (drop == 13 && size < 0x400) memcpy(&bits, &denormal, 4);
            else if (j > 2) bits += 1u << (drop - 1);
            bits = (bits + j % 3 - 1) | (i & 0x8000) << 16; /* around 0 that is a NaN */
            memcpy((float *)c.data[0] + 6 * i + j, &bits, 4);
        }
    case_check(&c);
}

/* Full words of bits, many of them equal and at the ends of their type; kinds as in make_binary. */
static void check_integer(const char *op, eb_dtype dtype, eb_dtype result, int64_t rows, int64_t n, int kind, int in_place) {
    test_case c;
    int operands = strstr(op, "not") ? 1 : 2;
    case_begin(&c, op, 0, "type %d rows=%ld n=%ld kind=%d", (int)dtype, (long)rows, (long)n, kind);
    for (int i = 0; i < operands; i++) {
        int is_value = operands == 2 && kind == 1 + i, is_row = kind == 3 && i == 1;
        case_input(&c, dtype, DENSE, 2, SHAPE(is_value || is_row ? 1 : rows, is_value ? 1 : n));
        static const int64_t ends[] = {0, 1, -1, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
        for (int64_t j = 0; dtype != EB_BOOL && j < c.bytes[i] / dtype_size(dtype); j++) {
            uint64_t bits = (uint64_t)random_below(1 << 24) << 40 ^ (uint64_t)random_below(1 << 24) << 20 ^ (uint64_t)random_below(1 << 24);
            int64_t value = j % 3 ? (int64_t)bits : ends[random_below(7)];
            memcpy((char *)c.data[i] + j * dtype_size(dtype), &value, (size_t)dtype_size(dtype)); /* the low bytes */
        }
    }
    case_output(&c, result, DENSE, SHAPE(rows, n));
    if (in_place && kind == 0 && dtype == result) c.in_place = 0;
    case_check(&c);
}

static void check_integers(void) {
    static const struct {
        const char *op;
        int wide, bytes, is_test; /* which types it takes; whether it answers bools */
    } ops[] = {{"add", 1, 0, 0}, {"sub", 1, 0, 0}, {"mul", 1, 0, 0}, {"maximum", 1, 0, 0}, {"minimum", 1, 0, 0},
               {"eq", 1, 0, 1},  {"ne", 1, 0, 1},  {"lt", 1, 0, 1},  {"le", 1, 0, 1},      {"gt", 1, 0, 1},
               {"ge", 1, 0, 1},  {"bitwise_and", 1, 1, 0}, {"bitwise_or", 1, 1, 0}, {"bitwise_xor", 1, 1, 0},
               {"bitwise_not", 1, 1, 0}, {"logical_and", 0, 0, 1}, {"logical_or", 0, 0, 1}, {"logical_xor", 0, 0, 1},
               {"logical_not", 0, 0, 1}};
    static const eb_dtype types[] = {EB_BOOL, EB_I32, EB_I64, EB_I8, EB_U8};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (int t = 0; t < 5; t++) {
            int fits = t == 0 ? ops[i].bytes || !ops[i].wide : t < 3 ? ops[i].wide : ops[i].bytes;
            for (int kind = 0; kind < 4 && fits; kind++) {
                eb_dtype result = ops[i].is_test ? EB_BOOL : types[t];
                for (int64_t n = 1; n < 80; n += 1 + n % 7) check_integer(ops[i].op, types[t], result, 3, n, kind, n % 2);
                check_integer(ops[i].op, types[t], result, 2, 20000, kind, 1);
            }
        }
}

void test_pointwise(void) {
    test_case c;
    for (int i = 0; i < UNARY; i++) {
        for (int64_t n = 0; n <= 35; n += 1 + n % 3) {
            make_unary(&c, unary[i], 2, n, (layout)(n % 4));
            c.ints[0] = n % 2;
            case_check(&c);
        }
        make_unary(&c, unary[i], 2, 40, DENSE);
        case_specials(&c, 0);
        case_check(&c);
        make_unary(&c, unary[i], 3, 40000, DENSE);
        c.in_place = 0;
        case_check(&c);
    }
    for (int i = 0; i < BINARY; i++)
        for (int kinds = 0; kinds < 16; kinds++) {
            make_binary(&c, binary[i], 5, 1 + kinds * 5, kinds % 4, kinds / 4);
            case_check(&c);
            make_binary(&c, binary[i], 400, 50, kinds % 4, kinds / 4);
            case_specials(&c, kinds % 2);
            case_check(&c);
            make_binary(&c, binary[i], kinds % 3, 33000, kinds % 4, kinds / 4);
            case_check(&c);
        }
    for (int kind = 0; kind < 3; kind++)
        for (int64_t n = 1; n < 40; n += 3) check_where(7, n, kind);
    check_tests_and_casts();
    check_half_casts(EB_F16, 13);
    check_half_casts(EB_BF16, 16);
    check_integers();
    test_programs();
}
