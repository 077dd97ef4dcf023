/* A program of pointwise steps in one pass over memory: every step over a run that fits the first-level cache, then the
 * next run. Each step is the loop of the op alone, so the bits are those of the ops one after the other.
 * Included by pointwise.h, whose loops these are. */

enum {
    PROGRAM_RUN = 1024, /* floats of a register: 4 KiB. With 512 a chain in cache took a third longer: steps cost to enter */
    PROGRAM_STEPS = 16,
    PROGRAM_INPUTS = EB_LOOP_OPERANDS - 1
};

static const apply program_functions[] = {
    [EB_POINTWISE_PROGRAM_NEG] = apply_neg,
    [EB_POINTWISE_PROGRAM_ABS] = apply_abs,
    [EB_POINTWISE_PROGRAM_SQRT] = apply_sqrt,
    [EB_POINTWISE_PROGRAM_RSQRT] = apply_rsqrt,
    [EB_POINTWISE_PROGRAM_RECIPROCAL] = apply_reciprocal,
    [EB_POINTWISE_PROGRAM_EXP] = apply_exp,
    [EB_POINTWISE_PROGRAM_TANH] = apply_tanh,
    [EB_POINTWISE_PROGRAM_SIGMOID] = apply_sigmoid,
    [EB_POINTWISE_PROGRAM_ERF] = apply_erf,
    [EB_POINTWISE_PROGRAM_RELU] = apply_relu,
    [EB_POINTWISE_PROGRAM_SILU] = apply_silu,
    [EB_POINTWISE_PROGRAM_SIGN] = apply_sign,
    [EB_POINTWISE_PROGRAM_EXPM1] = apply_expm1,
    [EB_POINTWISE_PROGRAM_LOG] = apply_log,
    [EB_POINTWISE_PROGRAM_LOG1P] = apply_log1p,
    [EB_POINTWISE_PROGRAM_SIN] = apply_sin,
    [EB_POINTWISE_PROGRAM_COS] = apply_cos,
    [EB_POINTWISE_PROGRAM_FLOOR] = apply_floor,
    [EB_POINTWISE_PROGRAM_CEIL] = apply_ceil,
    [EB_POINTWISE_PROGRAM_ROUND] = apply_round,
    [EB_POINTWISE_PROGRAM_TRUNC] = apply_trunc,
    [EB_POINTWISE_PROGRAM_GELU] = apply_gelu_erf,
    [EB_POINTWISE_PROGRAM_GELU_TANH] = apply_gelu_tanh,
    [EB_POINTWISE_PROGRAM_ADD] = apply_add,
    [EB_POINTWISE_PROGRAM_SUB] = apply_sub,
    [EB_POINTWISE_PROGRAM_MUL] = apply_mul,
    [EB_POINTWISE_PROGRAM_DIV] = apply_div,
    [EB_POINTWISE_PROGRAM_MAXIMUM] = apply_maximum,
    [EB_POINTWISE_PROGRAM_MINIMUM] = apply_minimum,
    [EB_POINTWISE_PROGRAM_POW] = apply_pow,
    [EB_POINTWISE_PROGRAM_WHERE] = apply_where,
};

/* A step with registers assigned: an operand is an input (below n_inputs) or register `operand - n_inputs`; the last
 * step writes to the output. */
typedef struct {
    apply function;
    int operands, operand[3], target;
} program_step;

/* Assign registers: one is free again at the step that reads it last, which may write where it reads. Answers their
 * number. */
static int program_assign(const eb_node *node, program_step *steps) {
    int count = node->n_ints / 4, inputs = node->n_inputs, registers = 0;
    int last[PROGRAM_INPUTS + PROGRAM_STEPS] = {0}, place[PROGRAM_STEPS], taken[PROGRAM_STEPS] = {0};
    for (int s = 0; s < count; s++)
        for (int k = 1; k < 4; k++)
            if (node->ints[4 * s + k] >= 0) last[node->ints[4 * s + k]] = s;
    for (int s = 0; s < count; s++) {
        program_step *step = &steps[s];
        step->function = program_functions[node->ints[4 * s]];
        for (step->operands = 0; step->operands < 3; step->operands++) {
            int64_t value = node->ints[4 * s + 1 + step->operands];
            if (value < 0) break;
            step->operand[step->operands] = value < inputs ? (int)value : inputs + place[value - inputs];
            if (value >= inputs && last[value] == s) taken[place[value - inputs]] = 0;
        }
        int free = 0;
        while (taken[free]) free++;
        taken[free] = 1;
        step->target = place[s] = free;
        if (s + 1 < count && free >= registers) registers = free + 1;
    }
    return registers;
}

static eb_status plan_program(eb_node *node) {
    if (node->n_inputs > PROGRAM_INPUTS || node->n_ints > 4 * PROGRAM_STEPS) return EB_NOT_APPLICABLE;
    for (int i = 0; i < node->n_inputs; i++)
        if (eb_input(node, i)->dtype != EB_F32 && eb_input(node, i)->dtype != EB_BOOL) return EB_NOT_APPLICABLE;
    if (eb_output(node)->dtype != EB_F32) return EB_NOT_APPLICABLE;
    program_step steps[PROGRAM_STEPS];
    node->scratch_bytes = program_assign(node, steps) * PROGRAM_RUN * 4;
    return plan_loop(node);
}

/* All steps over `count` elements. */
EB_INLINE void program_run(const program_step *steps, int n_steps, int n_inputs, const char *const *inputs,
                           const int *is_value, float *registers, float *y, int64_t count) {
    for (int s = 0; s < n_steps; s++) {
        const program_step *step = &steps[s];
        run_of r = {.y = s + 1 < n_steps ? registers + step->target * PROGRAM_RUN : y, .count = count};
        for (int k = 0; k < step->operands; k++) {
            int operand = step->operand[k], is_input = operand < n_inputs;
            r.input[k] = is_input ? (const void *)inputs[operand] : registers + (operand - n_inputs) * PROGRAM_RUN;
            r.is_value[k] = is_input && is_value[operand];
        }
        step->function(&r);
    }
}

static eb_status run_program(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1, n_steps = node->n_ints / 4, is_value[PROGRAM_INPUTS];
    int64_t size = loop.shape[inner], rows = loop.count / size, step_bytes[PROGRAM_INPUTS];
    int64_t pieces = node->private[AT_PIECES], elements = node->private[AT_ELEMENTS], each = node->private[AT_ROWS];
    program_step steps[PROGRAM_STEPS];
    program_assign(node, steps);
    for (int i = 0; i < node->n_inputs; i++) {
        step_bytes[i] = eb_input(node, i)->dtype == EB_BOOL ? 1 : 4;
        is_value[i] = loop.stride[i + 1][inner] == 0;
    }
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile / pieces * each, last = eb_min(rows, first + each), start = tile % pieces * elements;
        int64_t length = eb_min(elements, size - start);
        eb_cursor at;
        eb_cursor_seek(&loop, &at, first * size + start);
        for (int64_t row = first; row < last; row++) {
            for (int64_t done = 0; done < length; done += PROGRAM_RUN) {
                const char *inputs[PROGRAM_INPUTS];
                for (int i = 0; i < node->n_inputs; i++)
                    inputs[i] = (const char *)eb_data(eb_input(node, i), bases) +
                                (at.offset[i + 1] + (is_value[i] ? 0 : done)) * step_bytes[i];
                float *y = (float *)eb_data(eb_output(node), bases) + at.offset[0] + done;
                program_run(steps, n_steps, node->n_inputs, inputs, is_value, scratch, y, eb_min(PROGRAM_RUN, length - done));
            }
            if (row + 1 < last) eb_cursor_advance(&loop, &at, size);
        }
    }
    return EB_OK;
}

const eb_kernel EB_SYMBOL(pointwise, vector) = {plan_program, run_program, NULL, NULL};
