/* A program of pointwise steps in one pass over memory: every step over a run that fits the first-level cache, then the
 * next run. Each step is the loop of the op alone, so the bits are those of the ops one after the other.
 * Included by pointwise.h, whose loops these are. */

enum {
    PROGRAM_RUN = 512,    /* floats of a register: 2 KiB */
    PROGRAM_STREAM = 256, /* when the result goes past the caches: fewer, so that reading and writing overlap */
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

/* A step as it is called for run after run: its operands, and by how many bytes each goes on from one run to the next. */
typedef struct {
    apply function;
    run_of run;
    int64_t advance[3];
} program_call;

/* The calls of a row of elements that starts at the cursor, for runs of `length`. */
static void program_calls(const eb_node *node, const eb_loop *loop, const eb_cursor *at, void *const *bases,
                          const program_step *steps, float *registers, int64_t length, program_call *calls) {
    int n_steps = node->n_ints / 4;
    for (int s = 0; s < n_steps; s++) {
        program_call *call = &calls[s];
        *call = (program_call){.function = steps[s].function, .run.y = registers + steps[s].target * PROGRAM_RUN};
        for (int k = 0; k < steps[s].operands; k++) {
            int i = steps[s].operand[k];
            if (i >= node->n_inputs) {
                call->run.input[k] = registers + (i - node->n_inputs) * PROGRAM_RUN;
                continue;
            }
            int64_t size = eb_input(node, i)->dtype == EB_BOOL ? 1 : 4;
            call->run.input[k] = (const char *)eb_data(eb_input(node, i), bases) + at->offset[i + 1] * size;
            call->run.is_value[k] = loop->stride[i + 1][loop->rank - 1] == 0;
            call->advance[k] = call->run.is_value[k] ? 0 : length * size;
        }
    }
}

/* All steps over `count` elements of y, run by run. */
static void program_row(program_call *calls, int n_steps, float *y, int64_t count, int streams) {
    const int64_t length = streams ? PROGRAM_STREAM : PROGRAM_RUN;
    float piece[PROGRAM_STREAM];
    run_of *last = &calls[n_steps - 1].run;
    for (int64_t done = 0; done < count; done += length) {
        int64_t size = eb_min(length, count - done);
        last->y = streams ? piece : y + done;
        for (int s = 0; s < n_steps; s++) {
            program_call *call = &calls[s];
            call->run.count = size;
            call->function(&call->run);
            for (int k = 0; k < 3; k++) call->run.input[k] = (const char *)call->run.input[k] + call->advance[k];
        }
        if (streams) eb_stream(y + done, piece, size * 4);
    }
}

static eb_status run_program(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    eb_loop loop = loop_of(node);
    int n_steps = node->n_ints / 4;
    const int streams = node->private[AT_STREAM] != 0;
    int64_t size = loop.shape[loop.rank - 1], rows = loop.count / size;
    int64_t pieces = node->private[AT_PIECES], elements = node->private[AT_ELEMENTS], each = node->private[AT_ROWS];
    program_step steps[PROGRAM_STEPS];
    program_call calls[PROGRAM_STEPS];
    program_assign(node, steps);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile / pieces * each, last = eb_min(rows, first + each), start = tile % pieces * elements;
        eb_cursor at;
        eb_cursor_seek(&loop, &at, first * size + start);
        for (int64_t row = first; row < last; row++) {
            float *y = (float *)eb_data(eb_output(node), bases) + at.offset[0];
            program_calls(node, &loop, &at, bases, steps, scratch, streams ? PROGRAM_STREAM : PROGRAM_RUN, calls);
            program_row(calls, n_steps, y, eb_min(elements, size - start), streams);
            if (row + 1 < last) eb_cursor_advance(&loop, &at, size);
        }
    }
    if (streams) eb_stream_end();
    return EB_OK;
}

const eb_kernel EB_SYMBOL(pointwise, vector) = {plan_program, run_program, NULL, NULL};
