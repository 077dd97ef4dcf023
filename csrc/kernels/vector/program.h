/* A program of pointwise steps in one pass over memory, as threaded code: a block of eight vectors stays in registers, and
 * the function of each step ends by calling that of the next with them. Only operands that are not the step before's
 * result come from memory. Each step computes what the op alone computes, so the bits are those of the ops one after the
 * other. A truth value is 1 or 0; a comparison of inputs is made where it decides. A cast of an input to float32 is a step
 * like others; a cast at the end is part of the store. Included by pointwise.c, whose expressions these are.
 *
 * Chain of five, 64 x 768, one core: 15.8 us where each step went over a run in the first-level cache, which then takes
 * two loads and a store a vector and step. */

enum {
    PROGRAM_BLOCK = 8 * EB_VL,
    PROGRAM_STEPS = 16,
    PROGRAM_INPUTS = EB_LOOP_OPERANDS - 1,
    PROGRAM_CALLS = 3 * PROGRAM_STEPS + 1, /* a load, the step, a store to keep its result; and the last store */
};

typedef struct program_call program_call;

#define EB_BLOCK vf a0, vf a1, vf a2, vf a3, vf a4, vf a5, vf a6, vf a7
typedef void program_function(const program_call *c, int64_t i, EB_BLOCK);

/* An operand in memory: begins at x for the row's first element and goes on by `step` bytes an element: 0 for a block that is
 * the same for every one, such as a kept result. */
typedef struct {
    char *x;
    int64_t step;
    int input; /* whose x changes with the row; -1: none */
} program_operand;

/* A call on the way of a block, with the operands that are not the block: of where, the value or the two values, then the
 * condition or the two that are compared. */
struct program_call {
    program_function *function;
    program_operand operand[3];
    int is_value;             /* operand 0 is one value for the whole row */
    element_function convert; /* of a cast */
};

#define EB_NEXT c[1].function(c + 1, i, a0, a1, a2, a3, a4, a5, a6, a7)
#define EB_EACH(e) e(0) e(1) e(2) e(3) e(4) e(5) e(6) e(7)
#if defined(__clang__)
#define EB_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define EB_ROLLED _Pragma("GCC unroll 1")
#endif

/* Operand k of the block. */
EB_INLINE char *bytes_of(const program_call *c, int k, int64_t i) { return c->operand[k].x + i * c->operand[k].step; }
EB_INLINE float *floats_of(const program_call *c, int k, int64_t i) { return (float *)bytes_of(c, k, i); }
EB_INLINE float *operand_of(const program_call *c, int64_t i) { return floats_of(c, 0, i); }

static void step_load(const program_call *c, int64_t i, EB_BLOCK) {
    const float *x = operand_of(c, i);
#define LOAD(l) a##l = vf_load(x + l * EB_VL);
    EB_EACH(LOAD)
    EB_NEXT;
}
static void step_keep(const program_call *c, int64_t i, EB_BLOCK) {
    float *x = operand_of(c, i);
#define STORE(l) vf_store(x + l * EB_VL, a##l);
    EB_EACH(STORE)
    EB_NEXT;
}
static void step_store(const program_call *c, int64_t i, EB_BLOCK) {
    float *x = operand_of(c, i);
    EB_EACH(STORE)
}
static void step_stream(const program_call *c, int64_t i, EB_BLOCK) {
    float *x = operand_of(c, i);
#define STREAM(l) vf_stream(x + l * EB_VL, a##l);
    EB_EACH(STREAM)
}

static void step_to_float32(const program_call *c, int64_t i, EB_BLOCK) {
    _Alignas(64) float x[PROGRAM_BLOCK];
    c->convert(x, bytes_of(c, 0, i), NULL, NULL, PROGRAM_BLOCK);
    EB_EACH(LOAD)
    EB_NEXT;
}
/* A signalling NaN stays one here: a program goes on computing, which makes it quiet. */
static void step_of_bfloats(const program_call *c, int64_t i, EB_BLOCK) {
    const char *x = bytes_of(c, 0, i);
#define LOAD_BFLOATS(l) a##l = vf_load_bfloats(x + l * EB_VL * 2);
    EB_EACH(LOAD_BFLOATS)
    EB_NEXT;
}
static void step_of_halves(const program_call *c, int64_t i, EB_BLOCK) {
    const char *x = bytes_of(c, 0, i);
#define LOAD_HALVES(l) a##l = vf_load_halves(x + l * EB_VL * 2);
    EB_EACH(LOAD_HALVES)
    EB_NEXT;
}
static void step_store_bfloats(const program_call *c, int64_t i, EB_BLOCK) {
    char *y = bytes_of(c, 0, i);
#define STORE_BFLOATS(l) vf_store_bfloats(y + l * EB_VL * 2, a##l);
    EB_EACH(STORE_BFLOATS)
}
static void step_store_halves(const program_call *c, int64_t i, EB_BLOCK) {
    char *y = bytes_of(c, 0, i);
#define STORE_HALVES(l) vf_store_halves(y + l * EB_VL * 2, a##l);
    EB_EACH(STORE_HALVES)
}
static void step_store_as(const program_call *c, int64_t i, EB_BLOCK) {
    _Alignas(64) float x[PROGRAM_BLOCK];
    EB_EACH(STORE)
    c->convert(bytes_of(c, 0, i), x, NULL, NULL, PROGRAM_BLOCK);
}

/* One operand. A long expression is a loop: eight copies of it would fill the cache of instructions. */
#define LIGHT(op)                                                         \
    static void step_##op(const program_call *c, int64_t i, EB_BLOCK) {   \
        a0 = of_##op(a0), a1 = of_##op(a1), a2 = of_##op(a2), a3 = of_##op(a3); \
        a4 = of_##op(a4), a5 = of_##op(a5), a6 = of_##op(a6), a7 = of_##op(a7); \
        EB_NEXT;                                                          \
    }
#define LONG(name, expression)                                                             \
    static void step_##name(const program_call *c, int64_t i, EB_BLOCK) {                  \
        const float *x = operand_of(c, i);                                                 \
        vf a[8] = {a0, a1, a2, a3, a4, a5, a6, a7};                                        \
        (void)x;                                                                           \
        EB_ROLLED                                                                          \
        for (int l = 0; l < 8; l++) a[l] = expression;                                     \
        c[1].function(c + 1, i, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);           \
    }
#define HEAVY(op) LONG(op, of_##op(a[l]))
LIGHT(neg) LIGHT(abs) LIGHT(sqrt) LIGHT(rsqrt) LIGHT(reciprocal) LIGHT(relu) LIGHT(sign)
LIGHT(floor) LIGHT(ceil) LIGHT(round) LIGHT(trunc) LIGHT(square) LIGHT(cube)
HEAVY(exp) HEAVY(tanh) HEAVY(sigmoid) HEAVY(erf) HEAVY(silu) HEAVY(expm1) HEAVY(log) HEAVY(log1p) HEAVY(sin) HEAVY(cos)
HEAVY(gelu_erf) HEAVY(gelu_tanh)

/* Two operands, of which the block is the first; or the second, in the function called from_. */
#define TWO(op)                                                                                    \
    static void step_##op(const program_call *c, int64_t i, EB_BLOCK) {                            \
        const float *x = operand_of(c, i);                                                         \
        a0 = of_##op(a0, vf_load(x)), a1 = of_##op(a1, vf_load(x + EB_VL));                        \
        a2 = of_##op(a2, vf_load(x + 2 * EB_VL)), a3 = of_##op(a3, vf_load(x + 3 * EB_VL));        \
        a4 = of_##op(a4, vf_load(x + 4 * EB_VL)), a5 = of_##op(a5, vf_load(x + 5 * EB_VL));        \
        a6 = of_##op(a6, vf_load(x + 6 * EB_VL)), a7 = of_##op(a7, vf_load(x + 7 * EB_VL));        \
        EB_NEXT;                                                                                   \
    }                                                                                              \
    static void step_from_##op(const program_call *c, int64_t i, EB_BLOCK) {                       \
        const float *x = operand_of(c, i);                                                         \
        a0 = of_##op(vf_load(x), a0), a1 = of_##op(vf_load(x + EB_VL), a1);                        \
        a2 = of_##op(vf_load(x + 2 * EB_VL), a2), a3 = of_##op(vf_load(x + 3 * EB_VL), a3);        \
        a4 = of_##op(vf_load(x + 4 * EB_VL), a4), a5 = of_##op(vf_load(x + 5 * EB_VL), a5);        \
        a6 = of_##op(vf_load(x + 6 * EB_VL), a6), a7 = of_##op(vf_load(x + 7 * EB_VL), a7);        \
        EB_NEXT;                                                                                   \
    }
TWO(add) TWO(sub) TWO(mul) TWO(div) TWO(maximum_any) TWO(minimum_any)
/* With a number that is neither NaN nor zero, the instruction alone answers what the op does. */
#define BOUND(op, function)                                                                       \
    static void step_bound_##op(const program_call *c, int64_t i, EB_BLOCK) {                      \
        const vf x = vf_load(operand_of(c, i));                                                    \
        a0 = function(x, a0), a1 = function(x, a1), a2 = function(x, a2), a3 = function(x, a3);    \
        a4 = function(x, a4), a5 = function(x, a5), a6 = function(x, a6), a7 = function(x, a7);    \
        EB_NEXT;                                                                                   \
    }                                                                                              \
    static void step_##op(const program_call *c, int64_t i, EB_BLOCK) {                            \
        const int is_number = c->is_value && (*operand_of(c, i) < 0 || *operand_of(c, i) > 0);      \
        (is_number ? step_bound_##op : step_##op##_any)(c, i, a0, a1, a2, a3, a4, a5, a6, a7);     \
    }
BOUND(maximum, vf_max)
BOUND(minimum, vf_min)
LONG(pow_any, of_pow_any(a[l], vf_load(x + l * EB_VL)))
static void step_pow(const program_call *c, int64_t i, EB_BLOCK) {
    float exponent = c->is_value ? *operand_of(c, i) : 0;
    (exponent == 2 ? step_square : exponent == 3 ? step_cube : step_pow_any)(c, i, a0, a1, a2, a3, a4, a5, a6, a7);
}
#define RELATION(op, sign) \
    EB_INLINE vf of_##op(vf a, vf b) { return (vf)((a sign b) & (vi)vf_set(1.0f)); } \
    TWO(op)
RELATION(eq, ==) RELATION(ne, !=) RELATION(lt, <) RELATION(le, <=) RELATION(gt, >) RELATION(ge, >=)
EB_INLINE vf of_isnan(vf a) { return of_ne(a, a); }
EB_INLINE vf of_isinf(vf a) { return of_eq(vf_abs(a), vf_set(INFINITY)); }
LIGHT(isnan) LIGHT(isinf)
LONG(from_pow, of_pow_any(vf_load(x + l * EB_VL), a[l]))

/* The block where the condition holds, or (from_) where it does not. The condition is bytes in memory, a kept result (made_),
 * a comparison of two operands in memory, or the block itself (choose). */
#define SELECTION(name, condition)                                                                      \
    static void step_##name(const program_call *c, int64_t i, EB_BLOCK) {                              \
        const float *x = operand_of(c, i), *p = floats_of(c, 1, i), *q = floats_of(c, 2, i);           \
        const uint8_t *bytes = (const uint8_t *)p;                                                     \
        (void)p, (void)q, (void)bytes;                                                                 \
        EB_EACH(condition)                                                                             \
        EB_NEXT;                                                                                       \
    }
#define LANES(x, l) vf_load(x + l * EB_VL)
#define CHOSEN(l) a##l = vf_select(vf_load_bytes(bytes + l * EB_VL) != 0, a##l, LANES(x, l));
#define CHOSEN_FROM(l) a##l = vf_select(vf_load_bytes(bytes + l * EB_VL) != 0, LANES(x, l), a##l);
#define CHOSEN_MADE(l) a##l = vf_select(LANES(p, l) != 0, a##l, LANES(x, l));
#define CHOSEN_FROM_MADE(l) a##l = vf_select(LANES(p, l) != 0, LANES(x, l), a##l);
#define CHOSEN_EQ(l) a##l = vf_select(LANES(p, l) == LANES(q, l), a##l, LANES(x, l));
#define CHOSEN_FROM_EQ(l) a##l = vf_select(LANES(p, l) == LANES(q, l), LANES(x, l), a##l);
#define CHOSEN_LT(l) a##l = vf_select(LANES(p, l) < LANES(q, l), a##l, LANES(x, l));
#define CHOSEN_FROM_LT(l) a##l = vf_select(LANES(p, l) < LANES(q, l), LANES(x, l), a##l);
#define CHOSEN_LE(l) a##l = vf_select(LANES(p, l) <= LANES(q, l), a##l, LANES(x, l));
#define CHOSEN_FROM_LE(l) a##l = vf_select(LANES(p, l) <= LANES(q, l), LANES(x, l), a##l);
#define CHOOSE(l) a##l = vf_select(a##l != 0, LANES(x, l), LANES(p, l));
SELECTION(where, CHOSEN)
SELECTION(from_where, CHOSEN_FROM)
SELECTION(made_where, CHOSEN_MADE)
SELECTION(from_made_where, CHOSEN_FROM_MADE)
SELECTION(where_eq, CHOSEN_EQ)
SELECTION(from_where_eq, CHOSEN_FROM_EQ)
SELECTION(where_lt, CHOSEN_LT)
SELECTION(from_where_lt, CHOSEN_FROM_LT)
SELECTION(where_le, CHOSEN_LE)
SELECTION(from_where_le, CHOSEN_FROM_LE)
SELECTION(choose, CHOOSE)

/* The functions of each step, by which operand the block is: the first (of where: the second), or the one after. */
#define ONE_OPERAND(CODE, op) [EB_POINTWISE_PROGRAM_##CODE] = {step_##op, NULL}
#define TWO_OPERANDS(CODE, op) [EB_POINTWISE_PROGRAM_##CODE] = {step_##op, step_from_##op}
static program_function *const program_functions[][2] = {
    ONE_OPERAND(NEG, neg),
    ONE_OPERAND(ABS, abs),
    ONE_OPERAND(SQRT, sqrt),
    ONE_OPERAND(RSQRT, rsqrt),
    ONE_OPERAND(RECIPROCAL, reciprocal),
    ONE_OPERAND(EXP, exp),
    ONE_OPERAND(TANH, tanh),
    ONE_OPERAND(SIGMOID, sigmoid),
    ONE_OPERAND(ERF, erf),
    ONE_OPERAND(RELU, relu),
    ONE_OPERAND(SILU, silu),
    ONE_OPERAND(SIGN, sign),
    ONE_OPERAND(EXPM1, expm1),
    ONE_OPERAND(LOG, log),
    ONE_OPERAND(LOG1P, log1p),
    ONE_OPERAND(SIN, sin),
    ONE_OPERAND(COS, cos),
    ONE_OPERAND(FLOOR, floor),
    ONE_OPERAND(CEIL, ceil),
    ONE_OPERAND(ROUND, round),
    ONE_OPERAND(TRUNC, trunc),
    ONE_OPERAND(GELU, gelu_erf),
    ONE_OPERAND(GELU_TANH, gelu_tanh),
    TWO_OPERANDS(ADD, add),
    TWO_OPERANDS(SUB, sub),
    TWO_OPERANDS(MUL, mul),
    TWO_OPERANDS(DIV, div),
    [EB_POINTWISE_PROGRAM_MAXIMUM] = {step_maximum, step_from_maximum_any},
    [EB_POINTWISE_PROGRAM_MINIMUM] = {step_minimum, step_from_minimum_any},
    TWO_OPERANDS(POW, pow),
    ONE_OPERAND(ISNAN, isnan),
    ONE_OPERAND(ISINF, isinf),
    TWO_OPERANDS(EQ, eq),
    TWO_OPERANDS(NE, ne),
    TWO_OPERANDS(LT, lt),
    TWO_OPERANDS(LE, le),
    TWO_OPERANDS(GT, gt),
    TWO_OPERANDS(GE, ge),
};

/* --- from steps to calls ------------------------------------------------------------------------------------------- */

/* Blocks in scratch: of kept results, of inputs that are one value a row, of what is left at the end of a row. Elements have
 * up to 8 bytes. */
typedef struct {
    float kept[PROGRAM_STEPS][PROGRAM_BLOCK];
    double value[PROGRAM_INPUTS][PROGRAM_BLOCK], rest[PROGRAM_INPUTS][PROGRAM_BLOCK], result[PROGRAM_BLOCK];
} program_blocks;

/* The code and the operands of step s; an operand is an input, or n_inputs + a step. */
EB_INLINE const int64_t *operands_of(const eb_node *node, int s) { return node->ints + 4 * s + 1; }
EB_INLINE int first_operand(const eb_node *node, int s) { return node->ints[4 * s] == EB_POINTWISE_PROGRAM_WHERE; }

EB_INLINE int is_cast(const eb_node *node, int s) { return node->ints[4 * s] >= EB_POINTWISE_PROGRAM_TO_FLOAT32; }

/* Whether step s, the last one, casts to another type than float32. */
EB_INLINE int is_last_cast(const eb_node *node, int s) { return node->ints[4 * s] > EB_POINTWISE_PROGRAM_TO_FLOAT32; }

/* How the steps read each other's results. */
typedef struct {
    int8_t block[PROGRAM_STEPS];   /* which operand of the step is the block, the result of the step before; -1: none */
    int8_t is_kept[PROGRAM_STEPS]; /* whether the result is read other than as a block */
    int8_t is_part[PROGRAM_STEPS]; /* a comparison of inputs that only where reads, and makes itself: it is no step */
} program_uses;

static program_uses uses_of(const eb_node *node) {
    const int n_steps = node->n_ints / 4, n_inputs = node->n_inputs;
    program_uses uses = {.is_kept = {0}};
    int before = -1;
    for (int s = 0; s < n_steps; s++) {
        const int64_t code = node->ints[4 * s], *operands = operands_of(node, s);
        const int is_comparison = code >= EB_POINTWISE_PROGRAM_EQ && code <= EB_POINTWISE_PROGRAM_GE;
        uses.is_part[s] = is_comparison && operands[0] < n_inputs && operands[1] < n_inputs && s < n_steps - 1;
        for (int k = first_operand(node, s); k < 3; k++)
            if (operands[k] >= n_inputs) uses.is_part[operands[k] - n_inputs] = 0;
    }
    for (int s = 0; s < n_steps; s++) {
        if (uses.is_part[s]) continue;
        const int64_t *operands = operands_of(node, s);
        uses.block[s] = -1;
        for (int k = 0; k < 3 && before >= 0; k++)
            if (operands[k] == n_inputs + before) uses.block[s] = (int8_t)k;
        for (int k = 0; k < 3; k++)
            if (operands[k] >= n_inputs && k != uses.block[s]) uses.is_kept[operands[k] - n_inputs] = 1;
        before = s;
    }
    return uses;
}

/* An operand in memory: an input, or a kept result. */
static program_operand operand_at(const eb_node *node, int64_t value, program_blocks *blocks) {
    if (value < node->n_inputs) return (program_operand){.input = (int)value};
    return (program_operand){.x = (char *)blocks->kept[value - node->n_inputs], .input = -1};
}

static const program_operand no_operand = {.input = -1};

/* A call with one operand. */
static program_call call_with(const eb_node *node, program_function *function, int64_t value, program_blocks *blocks) {
    return (program_call){.function = function, .operand = {operand_at(node, value, blocks), no_operand, no_operand}};
}

/* The call of where, of which operand `block` is the block; `is_part`: its condition is a comparison that it makes. */
static program_call where_call(const eb_node *node, const int64_t *operands, int block, int is_part, program_blocks *blocks) {
    if (block == 0) {
        program_call choice = call_with(node, step_choose, operands[1], blocks);
        choice.operand[1] = operand_at(node, operands[2], blocks);
        return choice;
    }
    program_call call = call_with(node, block == 1 ? step_where : step_from_where, operands[3 - block], blocks);
    if (!is_part) {
        call.operand[1] = operand_at(node, operands[0], blocks);
        if (operands[0] >= node->n_inputs) call.function = block == 1 ? step_made_where : step_from_made_where;
        return call;
    }
    const int comparison = (int)operands[0] - node->n_inputs;
    const int64_t code = node->ints[4 * comparison], *compared = operands_of(node, comparison);
    const int is_swapped = code == EB_POINTWISE_PROGRAM_GT || code == EB_POINTWISE_PROGRAM_GE;
    const int is_from = (block == 2) != (code == EB_POINTWISE_PROGRAM_NE);
    call.operand[1] = operand_at(node, compared[is_swapped], blocks);
    call.operand[2] = operand_at(node, compared[!is_swapped], blocks);
    if (code == EB_POINTWISE_PROGRAM_EQ || code == EB_POINTWISE_PROGRAM_NE)
        call.function = is_from ? step_from_where_eq : step_where_eq;
    else if (code == EB_POINTWISE_PROGRAM_LT || code == EB_POINTWISE_PROGRAM_GT)
        call.function = is_from ? step_from_where_lt : step_where_lt;
    else
        call.function = is_from ? step_from_where_le : step_where_le;
    return call;
}

/* The calls of all steps but the last store; answers how many. */
static int program_calls(const eb_node *node, program_blocks *blocks, program_call *calls) {
    const int n_steps = node->n_ints / 4, ends_in_cast = is_last_cast(node, n_steps - 1);
    const program_uses uses = uses_of(node);
    int count = 0;
    for (int s = 0; s < n_steps - ends_in_cast; s++) {
        if (uses.is_part[s]) continue;
        const int64_t *operands = operands_of(node, s);
        const int first = first_operand(node, s), is_chained = uses.block[s] >= 0, block = is_chained ? uses.block[s] : first;
        if (is_cast(node, s) && operands[0] < node->n_inputs) {
            const int32_t dtype = eb_input(node, (int)operands[0])->dtype;
            program_function *load = dtype == EB_BF16 ? step_of_bfloats : dtype == EB_F16 ? step_of_halves : step_to_float32;
            calls[count] = call_with(node, load, operands[0], blocks);
            calls[count++].convert = eb_casts[dtype][EB_F32];
        } else {
            if (!is_chained) calls[count++] = call_with(node, step_load, operands[block], blocks);
            if (first) {
                const int64_t maker = operands[0] - node->n_inputs;
                calls[count++] = where_call(node, operands, block, maker >= 0 && uses.is_part[maker], blocks);
            } else if (!is_cast(node, s)) { /* that of a truth value changes nothing: it is a float already */
                program_function *function = program_functions[node->ints[4 * s]][block];
                calls[count++] = call_with(node, function, operands[operands[1] >= 0 ? !block : block], blocks);
            }
        }
        if (uses.is_kept[s]) calls[count++] = call_with(node, step_keep, node->n_inputs + s, blocks);
    }
    return count;
}

/* Where the inputs of a row begin, and by how many bytes they go on. */
typedef struct {
    char *x[PROGRAM_INPUTS];
    int64_t step[PROGRAM_INPUTS];
    int is_value[PROGRAM_INPUTS];
} program_row;

static void set_row(program_call *calls, int count, const program_row *row) {
    for (program_call *c = calls; c < calls + count; c++) {
        for (int k = 0; k < 3; k++) {
            const int input = c->operand[k].input;
            if (input >= 0) c->operand[k].x = row->x[input], c->operand[k].step = row->step[input];
        }
        c->is_value = c->operand[0].input >= 0 && row->is_value[c->operand[0].input];
    }
}

EB_INLINE void run_block(const program_call *calls, int64_t i) {
    vf zero = vf_set(0);
    calls->function(calls, i, zero, zero, zero, zero, zero, zero, zero, zero);
}

static eb_status plan_program(eb_node *node) {
    if (node->n_inputs > PROGRAM_INPUTS || node->n_ints > 4 * PROGRAM_STEPS) return EB_NOT_APPLICABLE;
    const int n_steps = node->n_ints / 4;
    if (is_last_cast(node, n_steps - 1) && operands_of(node, n_steps - 1)[0] != node->n_inputs + n_steps - 2)
        return EB_NOT_APPLICABLE;
    node->scratch_bytes = sizeof(program_blocks);
    return plan_loop(node);
}

static program_function *store_of(int32_t dtype) {
    if (dtype == EB_BF16) return step_store_bfloats;
    return dtype == EB_F32 ? step_store : dtype == EB_F16 ? step_store_halves : step_store_as;
}

/* `count` elements of y. The rest of a row that is no whole block is computed in blocks of its own. */
static void run_row(program_call *calls, int n_calls, program_row *row, const eb_node *node, program_blocks *blocks,
                    char *y, int64_t count) {
    const int32_t dtype = eb_output(node)->dtype;
    const int64_t width = eb_element_size(dtype);
    const int streams = tiling_of(node)->stream && (uintptr_t)y % (EB_VL * sizeof(float)) == 0;
    program_function *store = store_of(dtype);
    if (streams) store = step_stream;
    calls[n_calls] = (program_call){.function = store, .operand = {{y, width, -1}}, .convert = eb_casts[EB_F32][dtype]};
    set_row(calls, n_calls, row);
    int64_t i = 0;
    for (; i + PROGRAM_BLOCK <= count; i += PROGRAM_BLOCK) run_block(calls, i);
    if (i == count) return;
    for (int k = 0; k < node->n_inputs; k++) {
        if (row->step[k] == 0) continue;
        memset(blocks->rest[k], 0, sizeof blocks->rest[k]);
        memcpy(blocks->rest[k], row->x[k] + i * row->step[k], (size_t)((count - i) * row->step[k]));
        row->x[k] = (char *)blocks->rest[k];
    }
    calls[n_calls].function = store_of(dtype);
    calls[n_calls].operand[0].x = (char *)blocks->result;
    set_row(calls, n_calls, row);
    run_block(calls, 0);
    memcpy(y + i * width, blocks->result, (size_t)((count - i) * width));
}

static eb_status run_program(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1;
    int64_t size = loop.shape[inner], rows = loop.count / size;
    int64_t pieces = tiling_of(node)->pieces, elements = tiling_of(node)->elements, each = tiling_of(node)->rows;
    program_blocks *blocks = scratch;
    program_call calls[PROGRAM_CALLS];
    const char *filled[PROGRAM_INPUTS] = {NULL}; /* which value its block has */
    int n_calls = program_calls(node, blocks, calls);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile / pieces * each, last = eb_min(rows, first + each), start = tile % pieces * elements;
        eb_cursor at;
        eb_cursor_seek(&loop, &at, first * size + start);
        for (int64_t r = first; r < last; r++) {
            program_row row;
            for (int k = 0; k < node->n_inputs; k++) {
                const int64_t width = eb_element_size(eb_input(node, k)->dtype);
                row.x[k] = (char *)eb_data(eb_input(node, k), bases) + at.offset[k + 1] * width;
                row.step[k] = loop.stride[k + 1][inner] == 0 ? 0 : width;
                row.is_value[k] = row.step[k] == 0;
                if (!row.is_value[k]) continue;
                const char *value = row.x[k];
                row.x[k] = (char *)blocks->value[k];
                if (value == filled[k]) continue;
                filled[k] = value;
                eb_fill(row.x[k], value, PROGRAM_BLOCK, width);
            }
            char *y = (char *)eb_data(eb_output(node), bases) + at.offset[0] * eb_element_size(eb_output(node)->dtype);
            run_row(calls, n_calls, &row, node, blocks, y, eb_min(elements, size - start));
            if (r + 1 < last) eb_cursor_advance(&loop, &at, size);
        }
    }
    if (tiling_of(node)->stream) eb_stream_end();
    return EB_OK;
}

const eb_kernel EB_PASTE(any_, pointwise, __, EB_ISA, _, vector) = {plan_program, run_program};
