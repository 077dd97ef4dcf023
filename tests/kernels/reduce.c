/* Reductions, argmax, argmin, cumsum and cumprod: every set of axes of a tensor of three, both forms, edges, NaN and infinities. */
#include <stdio.h>
#include <string.h>

#include "iterate.h"
#include "suite.h"

/* `axes`: a bit mask. */
static void make_reduction(test_case *c, const char *op, eb_dtype dtype, int64_t axes, int keepdims, layout how,
                           const int64_t *shape) {
    const int is_test = IS_ONE_OF(op, "any", "all");
    int rank = 0;
    int64_t out[3];
    for (int axis = 0; axis < 3; axis++) {
        if (axes >> axis & 1 && !keepdims) continue;
        out[rank++] = axes >> axis & 1 ? 1 : shape[axis];
    }
    /* Both sum in double and round once: 1 ulp, but for var, whose second sum has the rounding of the first. */
    case_begin(c, op, 2e-7, "type=%d axes=%ld keepdims=%d layout=%d of %ld x %ld x %ld", (int)dtype, (long)axes, keepdims,
               (int)how, (long)shape[0], (long)shape[1], (long)shape[2]);
    case_input(c, dtype, how, is_test || dtype <= EB_F64 ? 2 : 120, 3, shape);
    case_output(c, is_test ? EB_BOOL : dtype, DENSE, rank, out);
    c->node.n_ints = 2;
    c->ints[0] = axes;
    c->ints[1] = keepdims;
    if (strcmp(op, "var") == 0) c->node.n_reals = 1;
    c->reals[EB_REAL_VAR_CORRECTION] = 1;
}

static int is_running(const char *op) { return IS_ONE_OF(op, "cumsum", "cumprod"); }

static void make_arg(test_case *c, const char *op, eb_dtype dtype, int axis, int keepdims, layout how, const int64_t *shape) {
    int64_t out[3];
    int rank = 0, is_sum = is_running(op);
    for (int i = 0; i < 3; i++)
        if (i != axis || keepdims) out[rank++] = i == axis && !is_sum ? 1 : shape[i];
    case_begin(c, op, is_sum ? 2e-7 : 0, "type=%d axis=%d keepdims=%d layout=%d of %ld x %ld x %ld", (int)dtype, axis,
               keepdims, (int)how, (long)shape[0], (long)shape[1], (long)shape[2]);
    case_input(c, dtype, how, strcmp(op, "cumprod") == 0 ? 2 : 100, 3, shape);
    case_output(c, is_sum ? dtype : EB_I64, DENSE, rank, out);
    c->node.n_ints = 2;
    c->ints[0] = axis;
    c->ints[1] = keepdims;
}

/* Factors near 1 and -1: a product of thousands of others underflows, early or late by its order, and then meets an
 * infinity as 0 or not. */
static void put_factors(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    float *x = c->data[0];
    double *wide = c->data[0];
    if (c->operands[0].dtype == EB_F32)
        for (int64_t i = 0; i < c->bytes[0] / 4; i++) x[i] = x[i] / 8 + (x[i] < 0 ? -1 : 1);
    else if (c->operands[0].dtype == EB_F64)
        for (int64_t i = 0; i < c->bytes[0] / 8; i++) wide[i] = wide[i] / 8 + (wide[i] < 0 ? -1 : 1);
}

/* Any bits: integers of both signs, large and small. */
static void put_bits(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    for (int64_t i = 0; i < c->bytes[0]; i++) ((uint8_t *)c->data[0])[i] = (uint8_t)random_below(256);
}

/* Equal largest and smallest elements, so that only the first of them is right. */
static void put_ties(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    const eb_dtype dtype = (eb_dtype)c->operands[0].dtype;
    for (int64_t i = 0; i < c->bytes[0] / eb_element_size(c->operands[0].dtype); i++) {
        const int64_t value = random_below(3);
        switch (dtype) {
        case EB_F32: ((float *)c->data[0])[i] = (float)value; break;
        case EB_F64: ((double *)c->data[0])[i] = (double)value; break;
        case EB_I64: ((int64_t *)c->data[0])[i] = value; break;
        default: ((int32_t *)c->data[0])[i] = (int32_t)value;
        }
    }
}

/* Both zeros, both infinities, and NaN of both signs, in one of `share` floats of any size. */
static void put_special_bits(test_case *c, int64_t share, int64_t b) {
    static const uint64_t bits[][6] = {
        [EB_F32] = {0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xff800001},
        [EB_F64] = {0, 1ull << 63, 0x7ffull << 52, 0xfffull << 52, 0x7ff8ull << 48, (0xfffull << 52) + 1},
        [EB_F16] = {0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfc01},
        [EB_BF16] = {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xff81}};
    (void)b;
    const int64_t size = eb_element_size(c->operands[0].dtype), count = c->bytes[0] / size;
    for (int64_t i = 0; i < count / share; i++)
        memcpy((char *)c->data[0] + random_below(count) * size, &bits[c->operands[0].dtype][random_below(6)], (size_t)size);
}

/* Rare ones among zeros, or rare zeros among ones. */
static void put_rare(test_case *c, int64_t common, int64_t b) {
    (void)b;
    const int64_t size = eb_element_size(c->operands[0].dtype);
    for (int64_t i = 0; i < c->bytes[0]; i += size)
        memset((char *)c->data[0] + i, random_below(200) ? (int)common : !common, (size_t)size);
}

static void raise_mean(test_case *c, int64_t by, int64_t b) {
    (void)b;
    for (int64_t i = 0; i < c->bytes[0] / 4; i++) ((float *)c->data[0])[i] += (float)by;
}

/* The first few in all layouts, the others dense. */
static const int64_t shapes[][3] = {{3, 5, 70}, {2, 9, 16}, {4, 1, 1}, {1, 6, 3}, {2, 37, 33}, {1, 3, 2100}, {3, 1030, 2},
                                    {2, 3, 600}, {0, 3, 4},  {40, 30, 17},
                                    {5, 1100, 3}, {2, 40, 15}};
enum { SHAPES = sizeof shapes / sizeof shapes[0], SHAPES_OF_ALL_LAYOUTS = 5 };
static int has_layout(int shape, int how) { return how == DENSE || shape < SHAPES_OF_ALL_LAYOUTS; }

/* Half of the ops keep the dimensions of odd sets of axes, the other half those of even ones. */
static void add_reductions(case_visitor *v, eb_dtype dtype, const int64_t *shape, layout how) {
    const int is_prod = IS_ONE_OF(v->op, "prod"), is_test = IS_ONE_OF(v->op, "any", "all"), is_real = dtype <= EB_BF16;
    for (int64_t axes = 1; axes < 8; axes++) {
        test_case c;
        make_reduction(&c, v->op, dtype, axes, (int)(axes + IS_ONE_OF(v->op, "mean", "var", "amin", "all")) % 2, how, shape);
        if (is_prod) case_edit(&c, put_factors, 0, 0);
        if (is_test) case_edit(&c, put_rare, v->op[1] == 'l', 0);
        if (!is_test && !is_real) case_edit(&c, put_bits, 0, 0);
        visit_case(v, &c);
        if (!is_real || how != DENSE) continue;
        make_reduction(&c, v->op, dtype, axes, 0, how, shape);
        if (is_prod) case_edit(&c, put_factors, 0, 0);
        case_note(&c, "special");
        if (dtype <= EB_F64)
            case_specials(&c, 0);
        else
            case_edit(&c, put_special_bits, 60, 0);
        visit_case(v, &c);
    }
}

static void time_reductions(case_visitor *v, eb_dtype dtype) {
    for (int i = 0; i < STREAMS; i++)
        for (int axes = 2; axes <= 4; axes += 2) {
            const int64_t rows = streams[i][0], n = streams[i][1];
            test_case c;
            make_reduction(&c, v->op, dtype, axes, 0, DENSE, (const int64_t[]){1, rows, n});
            case_timed(&c, (double)(rows * n), "%ld x %ld%s", (long)rows, (long)n, axes == 4 ? " inner" : " outer");
            visit_case(v, &c);
        }
}

/* The types that an op takes; float32 and bool in all layouts. */
static const eb_dtype dtypes[] = {EB_F32, EB_BOOL, EB_F64, EB_I64, EB_I32, EB_I16, EB_I8, EB_U8, EB_F16, EB_BF16};
static int takes(const char *op, eb_dtype dtype) {
    if (IS_ONE_OF(op, "any", "all")) return dtype != EB_I16 && dtype != EB_F16 && dtype != EB_BF16;
    if (dtype == EB_F16 || dtype == EB_BF16) return IS_ONE_OF(op, "sum", "mean", "amax", "amin");
    return dtype <= EB_F64 || (dtype != EB_BOOL && !IS_ONE_OF(op, "mean", "var"));
}

void cases_reduction(case_visitor *v) {
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++)
        for (int i = 0; i < SHAPES && takes(v->op, dtypes[d]); i++)
            for (int how = DENSE; how <= (d < 2 ? SCATTERED : SWAPPED); how++)
                if (has_layout(i, how)) add_reductions(v, dtypes[d], shapes[i], (layout)how);
    for (int64_t axes = 1; axes < 8 && strcmp(v->op, "var") == 0; axes += 3) {
        test_case c;
        make_reduction(&c, v->op, EB_F32, axes, 0, DENSE, (const int64_t[]){30, 7, 40});
        case_edit(&c, raise_mean, 3000, 0); /* a thousand times the deviation */
        case_note(&c, "large mean");
        visit_case(v, &c);
    }
    if (IS_ONE_OF(v->op, "sum", "amax", "var")) time_reductions(v, EB_F32);
}

static void time_arg(case_visitor *v, int64_t rows, int64_t n) {
    test_case c;
    make_arg(&c, v->op, EB_F32, 2, 0, DENSE, (const int64_t[]){1, rows, n});
    case_timed(&c, (double)(rows * n), "%ld x %ld inner", (long)rows, (long)n);
    visit_case(v, &c);
}

static void add_axis(case_visitor *v, eb_dtype dtype, const int64_t *shape, layout how, int axis) {
    const int keepdims = is_running(v->op) || axis % 2, is_prod = strcmp(v->op, "cumprod") == 0;
    test_case c;
    make_arg(&c, v->op, dtype, axis, keepdims, how, shape);
    if (is_prod) case_edit(&c, put_factors, 0, 0);
    if (dtype > EB_F64) case_edit(&c, put_bits, 0, 0);
    visit_case(v, &c);
    make_arg(&c, v->op, dtype, axis, keepdims, how, shape);
    case_edit(&c, put_ties, 0, 0);
    case_note(&c, "ties");
    visit_case(v, &c);
    if (dtype > EB_F64) return;
    make_arg(&c, v->op, dtype, axis, keepdims, how, shape);
    if (is_prod) case_edit(&c, put_factors, 0, 0);
    case_note(&c, "special");
    case_specials(&c, 0);
    visit_case(v, &c);
}

void cases_along_axis(case_visitor *v) {
    static const eb_dtype types[] = {EB_F32, EB_F64, EB_I64, EB_I32};
    for (int d = 0; d < (is_running(v->op) ? 3 : 4); d++)
        for (int i = 0; i < SHAPES; i++)
            for (int how = DENSE; how <= (d ? SWAPPED : SCATTERED); how++)
                for (int axis = 0; axis < 3 && has_layout(i, how); axis++)
                    add_axis(v, types[d], shapes[i], (layout)how, axis);
    if (strcmp(v->op, "argmax") != 0) return;
    for (int i = 0; i < STREAMS; i++) time_arg(v, streams[i][0], streams[i][1]);
    time_arg(v, 1, 50257);
}

/* `count` of `axis` of [a, b, c]; integers in [0, scale) have ties. */
static void add_argsort(case_visitor *v, eb_dtype dtype, const int64_t *sizes, int axis, int64_t count, layout how, double scale,
                        int special) {
    test_case c;
    int64_t shape[] = {sizes[0], sizes[1], sizes[2]};
    for (int descending = 0; descending < 2; descending++) {
        case_begin(&c, v->op, 0, "%ld of [%ld %ld %ld] dtype=%d axis=%d layout=%d scale=%g special=%d descending=%d", (long)count,
                   (long)sizes[0], (long)sizes[1], (long)sizes[2], (int)dtype, axis, (int)how, scale, special, descending);
        case_input(&c, dtype, how, scale, 3, sizes);
        if (special) case_edit(&c, put_special_bits, 2, 0);
        shape[axis] = count;
        case_output(&c, EB_I64, DENSE, 3, shape);
        c.node.n_ints = 3;
        c.ints[EB_INT_ARGSORT_AXIS] = axis, c.ints[EB_INT_ARGSORT_COUNT] = count;
        c.ints[EB_INT_ARGSORT_DESCENDING] = descending;
        visit_case(v, &c);
    }
}

/* Lines around the sizes at which the kernel sorts in another way, and counts around those that it inserts. */
void cases_argsort(case_visitor *v) {
    static const int64_t sizes[] = {1, 2, 8, 33, 63, 64, 65, 300, 1000}, counts[] = {1, 2, 31, 32, 33, 40, 256, 300, 999, 1000};
    for (int64_t size = 0; size < 2; size++) add_argsort(v, EB_F32, (int64_t[]){2, 1, size}, 2, 0, DENSE, 1, 0);
    add_argsort(v, EB_F32, (int64_t[]){0, 3, 5}, 2, 3, DENSE, 1, 0);
    for (int dtype = EB_F32; dtype <= EB_BOOL; dtype++) {
        const double scale = dtype == EB_BOOL ? 2 : 100;
        for (int axis = 0; axis < 3; axis++)
            for (int how = DENSE; how <= SCATTERED; how++) {
                add_argsort(v, (eb_dtype)dtype, (int64_t[]){5, 7, 35}, axis, 3, (layout)how, scale, dtype <= EB_BF16);
                add_argsort(v, (eb_dtype)dtype, (int64_t[]){5, 7, 35}, axis, 5, (layout)how, scale, 0);
            }
        for (int s = 0; s < 9; s++)
            for (int n = 0; n < 10; n++) {
                const int64_t count = eb_min(sizes[s], counts[n]);
                if (n && count <= eb_min(sizes[s], counts[n - 1])) continue;
                add_argsort(v, (eb_dtype)dtype, (int64_t[]){1, 3, sizes[s]}, 2, count, DENSE, scale, n % 2 && dtype <= EB_BF16);
            }
        add_argsort(v, (eb_dtype)dtype, (int64_t[]){400, 1, 37}, 0, dtype % 2 ? 400 : 20, DENSE, scale, 0); /* groups of lines */
    }
    add_argsort(v, EB_I64, (int64_t[]){1, 1, 9000}, 2, 50, DENSE, 1e12, 0);
    add_argsort(v, EB_F32, (int64_t[]){1, 1, 70000}, 2, 1000, DENSE, 1, 0);
    add_argsort(v, EB_F32, (int64_t[]){1, 1, 70000}, 2, 70000, DENSE, 1, 0);
}
