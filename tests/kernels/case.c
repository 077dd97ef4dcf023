#include "case.h"
#include "iterate.h"
#include "memory.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

totals total;
long kernel_runs[1024];

/* --- random numbers: a 64-bit linear congruential generator --- */

static uint64_t state = 1;
void random_seed(uint64_t seed) { state = seed * 2 + 1; }
double random_unit(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 40) / 16777216.0;
}
int64_t random_below(int64_t limit) { return (int64_t)(random_unit() * (double)limit); }

/* --- describing cases --- */

/* FNV-1a of a name: a case has numbers of its own, whatever other cases there are. */
uint64_t hash_name(const char *name) {
    uint64_t hash = 14695981039346656037u;
    for (; *name; name++) hash = (hash ^ (uint8_t)*name) * 1099511628211u;
    return hash;
}

static void append_to_name(test_case *c, const char *format, va_list arguments) {
    size_t at = strlen(c->name);
    c->name[at] = ' ';
    vsnprintf(c->name + at + 1, sizeof c->name - at - 1, format, arguments);
}

void case_begin(test_case *c, const char *op, double tolerance, const char *format, ...) {
    memset(c, 0, sizeof *c);
    c->op = op;
    c->tolerance = tolerance;
    c->in_place = -1;
    c->roles = CHECKED;
    c->node.ints = c->ints;
    c->node.reals = c->reals;
    c->node.operands = c->operands;
    snprintf(c->name, sizeof c->name, "%s", op);
    va_list arguments;
    va_start(arguments, format);
    append_to_name(c, format, arguments);
    va_end(arguments);
}

void case_note(test_case *c, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    append_to_name(c, format, arguments);
    va_end(arguments);
}

void case_timed(test_case *c, double flops, const char *format, ...) {
    double work = flops / 2, bytes = 0;
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++) bytes += (double)c->bytes[i];
    snprintf(c->name, sizeof c->name, "%s", c->op);
    va_list arguments;
    va_start(arguments, format);
    append_to_name(c, format, arguments);
    va_end(arguments);
    c->flops = flops;
    c->roles = TIMED | (work <= MOST_CHECKED_WORK && bytes <= MOST_CHECKED_WORK ? CHECKED : 0);
}

int64_t tensor_bytes(const eb_tensor *t) {
    int64_t last = 0;
    for (int axis = 0; axis < t->rank; axis++) {
        if (t->shape[axis] == 0) return 0;
        last += (t->shape[axis] - 1) * t->stride[axis];
    }
    return (last + 1) * eb_element_size(t->dtype);
}

static void set_strides(eb_tensor *t, layout how) {
    int order[EB_MAX_RANK];
    for (int i = 0; i < t->rank; i++) order[i] = i;
    if (how == SWAPPED && t->rank > 1) {
        order[t->rank - 1] = t->rank - 2;
        order[t->rank - 2] = t->rank - 1;
    }
    int64_t step = how == SCATTERED ? 2 : 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[order[i]] = step;
        step *= t->shape[order[i]];
        if (how == PADDED && i == t->rank - 1) step += 3;
    }
}

static void fill_tensor(const eb_tensor *t, void *data, int64_t bytes, double scale) {
    int64_t count = bytes / eb_element_size(t->dtype);
    for (int64_t i = 0; i < count; i++) {
        double real = (2 * random_unit() - 1) * scale;
        int64_t whole = random_below((int64_t)scale);
        switch (t->dtype) {
        case EB_F32: ((float *)data)[i] = (float)real; break;
        case EB_F64: ((double *)data)[i] = real; break;
        /* Magnitudes from 1/16, or 1/8, up to 1, of both signs. */
        case EB_F16: ((uint16_t *)data)[i] = (uint16_t)(0x2c00 + random_below(0x1000) + 0x8000 * random_below(2)); break;
        case EB_BF16: ((uint16_t *)data)[i] = (uint16_t)(0x3e00 + random_below(0x180) + 0x8000 * random_below(2)); break;
        case EB_I64: ((int64_t *)data)[i] = whole; break;
        case EB_I32: ((int32_t *)data)[i] = (int32_t)whole; break;
        case EB_I16: ((int16_t *)data)[i] = (int16_t)whole; break;
        default: ((uint8_t *)data)[i] = (uint8_t)whole;
        }
    }
}

static eb_tensor *add(test_case *c, eb_dtype dtype, layout how, int rank, const int64_t *shape) {
    int i = c->node.n_inputs + c->node.n_outputs;
    eb_tensor *t = &c->operands[i];
    t->buffer = i;
    t->dtype = (int32_t)dtype;
    t->rank = rank;
    for (int axis = 0; axis < rank; axis++) t->shape[axis] = shape[axis];
    set_strides(t, how);
    c->bytes[i] = tensor_bytes(t);
    return t;
}

eb_tensor *case_input(test_case *c, eb_dtype dtype, layout how, double scale, int rank, const int64_t *shape) {
    eb_tensor *t = add(c, dtype, how, rank, shape);
    c->scale[c->node.n_inputs++] = scale;
    return t;
}

void case_absent(test_case *c) { c->operands[c->node.n_inputs++].dtype = -1; }

static int find_encoding(const char *name) {
    for (int32_t e = 0; e < eb_encoding_count(); e++)
        if (strcmp(eb_encoding_describe(e).name, name) == 0) return e;
    fail("there is no encoding %s", name);
    return 0;
}

/* The scales or zero points of `t`. */
static void add_part(test_case *c, const eb_tensor *t, const eb_encoding *how, int32_t dtype, double scale) {
    int64_t shape[EB_MAX_RANK];
    for (int axis = 0; axis < t->rank; axis++)
        shape[axis] = eb_decoded_size(t, axis) / (how->per == EB_PER_GROUP && axis == t->axis ? how->group : 1);
    if (how->per == EB_PER_CHANNEL) shape[0] = eb_decoded_size(t, t->axis);
    case_input(c, (eb_dtype)dtype, DENSE, scale, how->per == EB_PER_TENSOR ? 0 : how->per == EB_PER_CHANNEL ? 1 : t->rank, shape);
}

void case_encode(test_case *c, int i, const char *encoding, int axis) {
    eb_tensor *t = &c->operands[i];
    t->encoding = (int16_t)find_encoding(encoding);
    t->axis = (int16_t)axis;
    const eb_encoding how = eb_encoding_describe(t->encoding);
    t->dtype = how.stored;
    if (how.bits == 4) t->shape[axis] /= 2;
    set_strides(t, DENSE);
    c->bytes[i] = tensor_bytes(t);
    c->scale[i] = how.per == EB_PER_ELEMENT ? 1 : 256; /* all values of a byte */
    if (how.per == EB_PER_ELEMENT) return;
    t->parts = c->node.n_inputs;
    add_part(c, t, &how, how.scale, 0.1);
    if (how.zero == EB_ZERO_INTEGER) add_part(c, t, &how, EB_I8, 16);
    if (how.zero == EB_ZERO_MINIMUM) add_part(c, t, &how, how.scale, 1);
}

void case_output(test_case *c, eb_dtype dtype, layout how, int rank, const int64_t *shape) {
    add(c, dtype, how, rank, shape);
    c->node.n_outputs++;
}

void case_specials(test_case *c, int i) { c->specials |= 1u << i; }

void case_edit(test_case *c, edit_function *edit, int64_t a, int64_t b) {
    c->edits[c->n_edits].edit = edit;
    c->edits[c->n_edits].a = a;
    c->edits[c->n_edits].b = b;
    c->n_edits++;
}

void case_ints(test_case *c, int position, int count, const int64_t *numbers) {
    memset(&c->ints[position], 0, EB_MAX_RANK * sizeof(int64_t));
    memcpy(&c->ints[position], numbers, (size_t)count * sizeof(int64_t));
}

/* --- filling them --- */

static void put_specials(test_case *c, int i) {
    static const float values[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, 1e18f /* its square is finite */};
    const int is_double = c->operands[i].dtype == EB_F64;
    int64_t count = c->bytes[i] / (is_double ? 8 : 4);
    for (int n = 0; n < 7 && count; n++)
        if (is_double)
            ((double *)c->data[i])[random_below(count)] = values[n];
        else
            ((float *)c->data[i])[random_below(count)] = values[n];
}

void case_fill(test_case *c) {
    random_seed(hash_name(c->name));
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++) {
        if (c->operands[i].dtype < 0) continue;
        c->data[i] = malloc((size_t)c->bytes[i]); /* exact: the sanitizer sees what lies beyond */
        if (i < c->node.n_inputs) fill_tensor(&c->operands[i], c->data[i], c->bytes[i], c->scale[i]);
    }
    for (int i = 0; i < c->n_edits; i++) c->edits[i].edit(c, c->edits[i].a, c->edits[i].b);
    for (int i = 0; i < c->node.n_inputs; i++)
        if (c->specials >> i & 1) put_specials(c, i);
}

void case_end(test_case *c) {
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++) free(c->data[i]);
}

/* --- running --- */

int32_t find_kernel(const char *name) {
    for (int32_t k = 0; k < eb_kernel_count(); k++)
        if (strcmp(eb_kernel_describe(k).name, name) == 0) return k;
    return -1;
}

int32_t find_reference(const char *op) {
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.op, op) == 0 && strcmp(info.variant, "reference") == 0) return k;
    }
    return -1;
}

int is_isa_here(const char *isa) { return (eb_isa_requires(isa) & ~eb_machine_features()) == 0; }
int runs_here(int32_t k) { return is_isa_here(eb_kernel_describe(k).isa); }

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (total.failures++ < 40) {
        fputs("FAIL ", stdout);
        vprintf(format, arguments);
        putchar('\n');
    }
    va_end(arguments);
}

/* A dense weight that is packed and unpacked is the weight again. */
static void check_unpacking(const test_case *c, const eb_node *node, int i, const void *packed) {
    const eb_tensor *t = &c->operands[i];
    if (!eb_is_dense(t) || c->bytes[i] != eb_size(t) * eb_element_size(t->dtype)) return;
    void *plain = malloc((size_t)c->bytes[i]);
    eb_unpack(node, i, packed, plain);
    if (memcmp(plain, c->data[i], (size_t)c->bytes[i]) != 0)
        fail("%s: %s unpacks another weight than it packed", c->name, eb_kernel_describe(node->kernel).name);
    free(plain);
}

eb_status case_prepare(const test_case *c, int32_t k, int threads, prepared *p) {
    memset(p, 0, sizeof *p);
    p->node = c->node;
    p->node.kernel = k;
    p->node.wanted = 1;
    p->node.operands = p->operands;
    memcpy(p->operands, c->operands, sizeof p->operands);
    memcpy(p->bases, c->data, sizeof p->bases);
    for (int i = 0; i < c->node.n_inputs; i++) {
        const eb_layout packed = c->constant >> i & 1 ? eb_layout_of(&p->node, i) : (eb_layout){0};
        if (!packed.packing) continue;
        p->packed[i] = eb_allocate(packed.bytes);
        memset(p->packed[i], 0x5a, (size_t)packed.bytes);
        for (int64_t piece = packed.pieces - 1; piece >= 0; piece--) /* in any order */
            eb_pack(&p->node, i, c->data[i], p->packed[i], piece, piece + 1);
        if (packed.moves) check_unpacking(c, &p->node, i, p->packed[i]);
        p->bases[i] = p->packed[i];
    }
    for (int i = 0; i < c->node.n_inputs; i++) p->operands[i].is_packed = p->packed[i] != NULL;
    eb_status status = eb_plan_node(&p->node);
    p->node.scratch_buffer = MOST_OPERANDS;
    p->node.scratch_offset = p->node.shared_bytes;
    int64_t bytes = p->node.shared_bytes + p->node.scratch_bytes * threads;
    if (bytes) p->bases[MOST_OPERANDS] = eb_allocate(bytes);
    return status;
}

void prepared_free(prepared *p) {
    for (int i = 0; i < p->node.n_inputs; i++) free(p->packed[i]);
    free(p->bases[MOST_OPERANDS]);
}

/* Where output `o` begins in the memory of all, aligned; and what they take together. */
static int64_t output_at(const test_case *c, int o) {
    int64_t at = 0;
    for (int i = 0; i < o; i++) at += (c->bytes[c->node.n_inputs + i] + 7) / 8 * 8;
    return at;
}

static size_t output_bytes(const test_case *c) {
    const int last = c->node.n_outputs - 1;
    return (size_t)(output_at(c, last) + c->bytes[c->node.n_inputs + last]);
}

char *case_run(const test_case *c, int32_t k, int threads, eb_status *status) {
    prepared p;
    int y = c->node.n_inputs;
    *status = case_prepare(c, k, threads, &p);
    if (*status == EB_NOT_APPLICABLE || *status == EB_NEEDS_DENSE) {
        prepared_free(&p);
        return NULL;
    }
    char *target = malloc(output_bytes(c));
    memset(target, 0x5a, output_bytes(c));
    for (int o = 0; o < c->node.n_outputs; o++) p.bases[y + o] = target + output_at(c, o);
    if (c->in_place >= 0) {
        memcpy(target, c->data[c->in_place], (size_t)c->bytes[y]);
        p.bases[c->in_place] = target;
    }
    int32_t failed = -1;
    *status = eb_run(&p.node, 0, 1, p.bases, threads, NULL, &failed);
    prepared_free(&p);
    return target;
}

static int close_enough(double value, double expected, double tolerance) {
    if (isnan(expected) || isnan(value)) return isnan(expected) && isnan(value);
    if (isinf(expected) || isinf(value)) return value == expected;
    return fabs(value - expected) <= tolerance * fmax(1, fabs(expected));
}

/* Floats of 16 bits: equal numbers, or NaN both. */
static int are_equal_halves(uint16_t a, uint16_t b, uint16_t infinity) {
    const uint16_t size = 0x7fff;
    return a == b || ((a | b) & size) == 0 || ((a & size) > infinity && (b & size) > infinity);
}

/* Of operand `y`, an output. */
static void compare(const test_case *c, int32_t k, int y, const char *value, const char *expected) {
    const char *name = eb_kernel_describe(k).name;
    const int wide = c->operands[y].dtype == EB_F64;
    const int is_half = c->operands[y].dtype == EB_F16, is_bfloat = c->operands[y].dtype == EB_BF16;
    if ((is_half || is_bfloat) && c->tolerance != 0) {
        const uint16_t *a = (const uint16_t *)value, *b = (const uint16_t *)expected;
        for (int64_t i = 0; i < c->bytes[y] / 2; i++)
            if (!are_equal_halves(a[i], b[i], is_half ? 0x7c00 : 0x7f80)) {
                fail("%s by %s: element %ld is %#x, not %#x", c->name, name, (long)i, a[i], b[i]);
                return;
            }
        return;
    }
    if (wide && c->tolerance == 0) {
        const double *a = (const double *)value, *b = (const double *)expected;
        for (int64_t i = 0; i < c->bytes[y] / 8; i++) /* of two NaN that are added, C does not say which one stays */
            if (memcmp(a + i, b + i, sizeof *a) != 0 && !(isnan(a[i]) && isnan(b[i]))) {
                fail("%s by %s: element %ld is %.17g, not %.17g", c->name, name, (long)i, a[i], b[i]);
                return;
            }
        return;
    }
    if ((c->operands[y].dtype != EB_F32 && !wide) || c->tolerance == 0) {
        if (memcmp(value, expected, (size_t)c->bytes[y]) != 0) fail("%s by %s: other bits than the reference", c->name, name);
        return;
    }
    /* What is not finite, or huge, spoils its neighbours too, but it is never lost. */
    const int spreads = c->specials && eb_kernel_describe(k).transforms;
    for (int64_t i = 0; i < c->bytes[y] / (wide ? 8 : 4); i++) { /* gaps included: both kept the pattern there */
        const double a = wide ? ((const double *)value)[i] : ((const float *)value)[i];
        const double b = wide ? ((const double *)expected)[i] : ((const float *)expected)[i];
        if (close_enough(a, b, c->tolerance) || (spreads && (isfinite(b) || !isfinite(a)))) continue;
        fail("%s by %s: element %ld is %.17g, not %.17g", c->name, name, (long)i, a, b);
        return;
    }
}

void case_check(const test_case *c) {
    const int32_t reference = find_reference(c->op);
    eb_status expected_status = EB_NOT_APPLICABLE, status;
    char *expected = reference < 0 ? NULL : case_run(c, reference, 1, &expected_status);
    total.cases++;
    if (!expected) fail("%s: the reference does not take it (%d)", c->name, (int)expected_status);
    for (int32_t k = 0; k < eb_kernel_count() && expected; k++) {
        if (strcmp(eb_kernel_describe(k).op, c->op) != 0 || !runs_here(k)) continue;
        char *one = case_run(c, k, 1, &status), *three;
        if (!one) continue;
        total.runs++;
        kernel_runs[k]++;
        if (status != expected_status)
            fail("%s by %s: status %d, not %d", c->name, eb_kernel_describe(k).name, (int)status, (int)expected_status);
        else if (status == EB_OK)
            for (int o = 0; o < c->node.n_outputs; o++)
                compare(c, k, c->node.n_inputs + o, one + output_at(c, o), expected + output_at(c, o));
        three = case_run(c, k, 3, &status);
        if (status == EB_OK && memcmp(one, three, output_bytes(c)) != 0)
            fail("%s by %s: three threads give other bits than one", c->name, eb_kernel_describe(k).name);
        free(one);
        free(three);
    }
    free(expected);
}
