/* Norms and softmax. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* sum: there is an addend. */
void make_norm(test_case *c, const char *op, int64_t rows, int64_t n, int affine, int sum, layout how) {
    int is_layer = op[0] == 'l';
    case_begin(c, op, 3e-6, "rows=%ld n=%ld affine=%d sum=%d layout=%d", (long)rows, (long)n, affine, sum, (int)how);
    case_input(c, EB_F32, how, 3, SHAPE(2, rows, n));
    if (affine)
        case_input(c, EB_F32, DENSE, 1, SHAPE(n));
    else
        case_absent(c);
    if (is_layer && affine)
        case_input(c, EB_F32, DENSE, 1, SHAPE(n));
    else if (is_layer)
        case_absent(c);
    if (sum)
        case_input(c, EB_F32, DENSE, 2, SHAPE(2, rows, n));
    else
        case_absent(c);
    case_output(c, EB_F32, DENSE, SHAPE(2, rows, n));
    c->node.n_ints = c->node.n_reals = 1;
    c->ints[EB_INT_LAYER_NORM_AXES] = 1;
    c->reals[EB_REAL_LAYER_NORM_EPSILON] = 1e-5;
}

void make_softmax(test_case *c, const char *op, int64_t rows, int64_t n, int axis, layout how) {
    case_begin(c, op, 2e-6, "rows=%ld n=%ld axis=%d layout=%d", (long)rows, (long)n, axis, (int)how);
    case_input(c, EB_F32, how, 20, SHAPE(rows, n));
    case_output(c, EB_F32, DENSE, SHAPE(rows, n));
    c->node.n_ints = 1;
    c->ints[EB_INT_SOFTMAX_AXIS] = axis;
}

static void add_two_axes(case_visitor *v) {
    test_case c;
    case_begin(&c, "layer_norm", 3e-6, "over two axes, in place");
    case_input(&c, EB_F32, DENSE, 3, SHAPE(5, 4, 9));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(4, 9));
    case_absent(&c);
    case_absent(&c);
    case_output(&c, EB_F32, DENSE, SHAPE(5, 4, 9));
    c.node.n_ints = c.node.n_reals = 1;
    c.ints[EB_INT_LAYER_NORM_AXES] = 2;
    c.reals[EB_REAL_LAYER_NORM_EPSILON] = 1e-5;
    c.in_place = 0;
    visit_case(v, &c);
}

static void raise_mean(test_case *c, int64_t by, int64_t b) {
    (void)b;
    for (int64_t i = 0; i < c->bytes[0] / 4; i++) ((float *)c->data[0])[i] += (float)by;
}

/* The mean is a thousand times the deviation: a variance by the difference of squares would have no digits left. */
static void add_large_mean(case_visitor *v) {
    test_case c;
    make_norm(&c, "layer_norm", 3, 768, 1, 0, DENSE);
    case_edit(&c, raise_mean, 3000, 0);
    case_note(&c, "large mean");
    c.tolerance = 3e-4; /* what rounding the inputs themselves to float leaves */
    visit_case(v, &c);
}

/* Rows of millions of elements: one float sum over all of them loses digits, as each element is small beside it. */
enum { LONG_ROW = 1 << 21, STREAMED_ROW = 1 << 23 /* whole vectors past the caches */ };

static void add_long_norm(case_visitor *v) {
    test_case c;
    make_norm(&c, v->op, 1, LONG_ROW + 5, 0, 0, DENSE);
    case_edit(&c, raise_mean, 100, 0);
    case_note(&c, "large mean");
    c.tolerance = 2e-5; /* the mean rounded to float is off by up to 4e-6, and the results are divided by 1.7 */
    visit_case(v, &c);
}

static void add_long_softmax(case_visitor *v, int64_t n) {
    test_case c;
    make_softmax(&c, v->op, 1, n, 1, DENSE);
    if (strcmp(v->op, "softmax") == 0) c.tolerance = 40 * 2e-6 / (double)n; /* n / 40 is about the sum, so 40 / n the largest */
    visit_case(v, &c);
}

static void run_once(const test_case *c, int32_t k, void *y) {
    prepared p;
    int32_t failed;
    eb_status status = case_prepare(c, k, 1, &p);
    p.bases[c->node.n_inputs] = y;
    if (status == EB_OK) status = eb_run(&p.node, 0, 1, p.bases, 1, NULL, &failed);
    if (status != EB_OK) fail("%s by %s: status %d", c->name, eb_kernel_describe(k).name, (int)status);
    prepared_free(&p);
}

/* Each kernel's norm of x + addend has the bits of the same kernel's norm of the sum that an add rounded to float. */
static void check_bits_of_two_ops(const char *op, int64_t n) {
    test_case one, two;
    make_norm(&one, op, 3, n, 1, 1, DENSE);
    make_norm(&two, op, 3, n, 1, 0, DENSE);
    case_fill(&one);
    case_fill(&two);
    int y = one.node.n_inputs, addend = y - 1;
    for (int i = 0; i < addend; i++) memcpy(two.data[i], one.data[i], (size_t)one.bytes[i]);
    for (int64_t i = 0; i < one.bytes[0] / 4; i++) ((float *)two.data[0])[i] += ((float *)one.data[addend])[i];
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        if (strcmp(eb_kernel_describe(k).op, op) != 0 || !runs_here(k)) continue;
        if (strcmp(eb_kernel_describe(k).variant, "doubles") == 0) continue;
        run_once(&one, k, one.data[y]);
        run_once(&two, k, two.data[y]);
        if (memcmp(one.data[y], two.data[y], (size_t)one.bytes[y]) != 0)
            fail("%s by %s: other bits than an add and a norm", one.name, eb_kernel_describe(k).name);
    }
    case_end(&one);
    case_end(&two);
}

/* Images of `places` with their channels first (along two axes) or last. */
static void make_group_norm(test_case *c, int64_t images, int64_t channels, int64_t groups, int64_t places, int last,
                            int affine, layout how) {
    case_begin(c, "group_norm", 3e-6, "images=%ld channels=%ld groups=%ld places=%ld last=%d affine=%d layout=%d",
               (long)images, (long)channels, (long)groups, (long)places, last, affine, (int)how);
    if (last)
        case_input(c, EB_F32, how, 3, SHAPE(images, 1, places, channels));
    else
        case_input(c, EB_F32, how, 3, SHAPE(images, channels, 1, places));
    for (int i = 0; i < 2; i++)
        if (affine >> i & 1)
            case_input(c, EB_F32, DENSE, 1, SHAPE(channels));
        else
            case_absent(c);
    if (last)
        case_output(c, EB_F32, DENSE, SHAPE(images, 1, places, channels));
    else
        case_output(c, EB_F32, DENSE, SHAPE(images, channels, 1, places));
    c->node.n_ints = 2, c->node.n_reals = 1;
    c->ints[EB_INT_GROUP_NORM_GROUPS] = groups;
    c->ints[EB_INT_GROUP_NORM_CHANNELS_LAST] = last;
    c->reals[EB_REAL_GROUP_NORM_EPSILON] = 1e-5;
}

/* A word's row, the type's row at ids of one batch for all, and a row of positions; `terms` of them. */
static void make_encoded_norm(test_case *c, int64_t rows, int64_t n, int terms, int norm, eb_dtype ids, layout how,
                              const char *encoding) {
    case_begin(c, "embedding_norm", 3e-6, "rows=%ld n=%ld terms=%d norm=%d ids=%d layout=%d", (long)rows, (long)n, terms,
               norm, (int)ids, (int)how);
    case_input(c, EB_F32, how, 3, SHAPE(50, n));
    case_input(c, ids, how, 50, SHAPE(2, rows));
    if (terms > 1) case_input(c, EB_F32, DENSE, 2, SHAPE(2, n)), case_input(c, ids, how, 2, SHAPE(1, rows));
    if (terms > 2) case_input(c, EB_F32, how, 2, SHAPE(rows, n)), case_absent(c);
    for (int i = terms; i < 3; i++) case_absent(c), case_absent(c);
    case_input(c, EB_F32, DENSE, 1, SHAPE(n));
    if (norm == EB_EMBEDDING_NORM_NORM_LAYER_NORM)
        case_input(c, EB_F32, DENSE, 1, SHAPE(n));
    else
        case_absent(c);
    for (int t = 0; t < terms && t < 2 && encoding; t++) case_encode(c, 2 * t, encoding, 0);
    case_output(c, EB_F32, DENSE, SHAPE(2, rows, n));
    c->node.n_ints = c->node.n_reals = 1;
    c->ints[EB_INT_EMBEDDING_NORM_NORM] = norm;
    c->reals[EB_REAL_EMBEDDING_NORM_EPSILON] = 1e-5;
}

static void make_embedding_norm(test_case *c, int64_t rows, int64_t n, int terms, int norm, eb_dtype ids, layout how) {
    make_encoded_norm(c, rows, n, terms, norm, ids, how, NULL);
}

/* The bits of a gather, adds and the norm by the same instruction set: of the sums that C rounds to float. */
static void check_bits_of_gathers(int64_t rows, int64_t n, int terms, int norm) {
    static const char *const names[] = {"layer_norm", "rms_norm"};
    test_case one, two;
    make_embedding_norm(&one, rows, n, terms, norm, EB_I64, DENSE);
    make_norm(&two, names[norm], rows, n, 1, 0, DENSE);
    case_fill(&one);
    case_fill(&two);
    const float *word = one.data[0], *type = one.data[2], *position = one.data[4];
    const int64_t *ids = one.data[1], *types = one.data[3];
    for (int64_t i = 0; i < 2 * rows * n; i++) {
        int64_t row = i / n, column = i % n;
        float sum = word[ids[row] * n + column];
        if (terms > 1) sum += type[types[row % rows] * n + column];
        if (terms > 2) sum += position[row % rows * n + column];
        ((float *)two.data[0])[i] = sum;
    }
    for (int i = 1; i < two.node.n_inputs - 1; i++) memcpy(two.data[i], one.data[5 + i], (size_t)two.bytes[i]);
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        char alone[80];
        snprintf(alone, sizeof alone, "f32_%s__%s_%s", names[norm], info.isa, info.variant);
        const int32_t norm_alone = strcmp(info.variant, "reference") == 0 ? find_reference(names[norm]) : find_kernel(alone);
        if (strcmp(info.op, "embedding_norm") != 0 || !runs_here(k)) continue;
        if (rows > 1000 && strcmp(info.variant, "vector") != 0) continue; /* no other has a way of its own for these */
        run_once(&one, k, one.data[one.node.n_inputs]);
        run_once(&two, norm_alone, two.data[two.node.n_inputs]);
        if (memcmp(one.data[one.node.n_inputs], two.data[two.node.n_inputs], (size_t)(8 * rows * n)) != 0)
            fail("%s by %s: other bits than the ops one by one", one.name, info.name);
    }
    case_end(&one);
    case_end(&two);
}

static void put_wrong_id(test_case *c, int64_t input, int64_t wrong) { ((int64_t *)c->data[input])[17] = wrong; }

static void add_embedding_norm(case_visitor *v, int64_t n, int number) {
    test_case c;
    for (int terms = 1; terms <= 3; terms++)
        for (int norm = 0; norm < 2; norm++) {
            eb_dtype ids = (number + terms) % 2 ? EB_I64 : EB_I32;
            make_embedding_norm(&c, 1 + number % 5, n, terms, norm, ids, (layout)((number + terms) % 4));
            visit_case(v, &c);
            make_embedding_norm(&c, 3, n, terms, norm, EB_I64, DENSE);
            for (int i = 0; i < 2 * terms; i += 2) case_specials(&c, i);
            visit_case(v, &c);
        }
    for (int input = 1; input < 4; input += 2)
        for (int64_t wrong = -1; wrong <= 50; wrong += 51) { /* below and past either table */
            make_embedding_norm(&c, 40, n, 3, 0, EB_I64, DENSE);
            case_edit(&c, put_wrong_id, input, wrong);
            case_note(&c, "id %ld in input %d", (long)wrong, input);
            visit_case(v, &c);
        }
}

/* Tables stored in encodings; both are encoded alike. */
static void add_encoded_norms(case_visitor *v, int64_t n, int number) {
    static const char *const encodings[] = {"bfloat16", "float16", "int8_tensor", "int8_channel"};
    for (int i = 0; i < 4; i++)
        for (int terms = 1; terms <= 3; terms++) {
            test_case c;
            make_encoded_norm(&c, 3, n, terms, (number + terms) % 2, number % 2 ? EB_I64 : EB_I32, DENSE, encodings[i]);
            case_note(&c, "%s", encodings[i]);
            visit_case(v, &c);
        }
}

static void add_sums(case_visitor *v, int64_t n, int number) {
    const char *const op = v->op;
    test_case c;
    make_norm(&c, op, 1 + number % 5, n, number % 2, 1, (layout)(number % 4));
    visit_case(v, &c);
    make_norm(&c, op, 3, n, 1, 1, DENSE);
    c.in_place = number % 2 ? c.node.n_inputs - 1 : 0;
    visit_case(v, &c);
    make_norm(&c, op, 3, n, 1, 1, DENSE);
    case_specials(&c, 0);
    case_specials(&c, c.node.n_inputs - 1);
    visit_case(v, &c);
}

/* A result so large that it is written past the caches has the bits of its two halves, which are not; also where it lies
 * at an address that such stores do not take. */
static void check_large(test_case *c, int32_t k, float *y) {
    int64_t bytes = c->bytes[c->node.n_inputs];
    case_fill(c);
    for (int aligned = 0; aligned < 2; aligned++) {
        char *whole = (char *)(((uintptr_t)y + 63) / 64 * 64) + 4 * !aligned, *halves = c->data[c->node.n_inputs];
        test_case half = *c;
        half.node.operands = half.operands;
        run_once(c, k, whole);
        for (int h = 0; h < 2; h++) {
            for (int i = 0; i <= c->node.n_inputs; i++) {
                const eb_tensor *t = &c->operands[i];
                if (t->dtype < 0 || t->rank < 2 || t->shape[0] == 1) continue; /* absent, or one row for all */
                half.operands[i].shape[0] = t->shape[0] / 2;
                if (i < c->node.n_inputs) half.operands[i].offset = h * c->bytes[i] / 2;
            }
            run_once(&half, k, halves + h * bytes / 2);
        }
        if (memcmp(whole, halves, (size_t)bytes) != 0)
            fail("%s by %s: other bits in one piece than in two", c->name, eb_kernel_describe(k).name);
    }
    case_end(c);
}

static void check_large_results(void) {
    enum { ROWS = 8192, WIDTH = 1024 };
    float *y = malloc((32 << 20) + 128);
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.variant, "reference") == 0 || !runs_here(k)) continue;
        test_case c;
        if (strcmp(info.variant, "doubles") == 0) continue;
        if (strcmp(info.op, "layer_norm") == 0 || strcmp(info.op, "rms_norm") == 0)
            make_norm(&c, info.op, ROWS / 2, WIDTH, 1, 1, DENSE);
        else if (strstr(info.op, "softmax") && strcmp(info.variant, "columns") != 0)
            make_softmax(&c, info.op, ROWS, WIDTH, 1, DENSE);
        else if (strcmp(info.op, "add") == 0 && strcmp(info.types, "f32") == 0)
            make_binary(&c, info.op, ROWS, WIDTH, 0, 1);
        else if (strcmp(info.op, "neg") == 0 && strcmp(info.types, "f32") == 0)
            make_unary(&c, info.op, ROWS, WIDTH, DENSE);
        else if (strcmp(info.op, "pointwise") == 0)
            make_chain(&c, ROWS, WIDTH);
        else if (strcmp(info.op, "copy") == 0)
            make_copy(&c, EB_F32, DENSE, 2, (const int64_t[]){ROWS, WIDTH});
        else
            continue;
        check_large(&c, k, y);
    }
    free(y);
}

static const int64_t widths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 768, 1000};
enum { WIDTHS = sizeof widths / sizeof widths[0] };

static void time_norms(case_visitor *v) {
    for (int i = 0; i < STREAMS; i++)
        for (int sum = 0; sum < 2; sum++) {
            const int64_t rows = streams[i][0], n = streams[i][1];
            test_case c;
            make_norm(&c, v->op, rows / 2, n, 1, sum, DENSE);
            case_timed(&c, 8.0 * (double)(rows * n), "%ld x %ld%s", (long)rows, (long)n, sum ? " of a sum" : "");
            visit_case(v, &c);
        }
}

/* Of float64 instead of float32. */
static void widen(test_case *c) {
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++) {
        if (c->operands[i].dtype != EB_F32) continue;
        c->operands[i].dtype = EB_F64;
        c->bytes[i] = tensor_bytes(&c->operands[i]);
    }
    case_note(c, "double");
}

void cases_norm(case_visitor *v) {
    test_case c;
    for (int i = 0; i < WIDTHS; i++) {
        for (int sum = 0; sum < 2; sum++) {
            make_norm(&c, v->op, 1 + i % 5, widths[i], i % 2, sum, (layout)(i % 4));
            if (i % 4 == 0) c.in_place = 0;
            widen(&c);
            visit_case(v, &c);
        }
        make_norm(&c, v->op, 3, widths[i], 1, 0, DENSE);
        widen(&c);
        case_specials(&c, 0);
        visit_case(v, &c);
        make_norm(&c, v->op, 1 + i % 5, widths[i], i % 2, 0, (layout)(i % 4));
        visit_case(v, &c);
        make_norm(&c, v->op, 3, widths[i], 1, 0, DENSE);
        case_specials(&c, 0);
        visit_case(v, &c);
        add_sums(v, widths[i], i);
    }
    make_norm(&c, v->op, 0, 8, 1, 1, DENSE);
    visit_case(v, &c);
    make_norm(&c, v->op, 3, 0, 1, 0, DENSE);
    visit_case(v, &c);
    add_long_norm(v);
    if (strcmp(v->op, "layer_norm") == 0) {
        add_two_axes(v);
        add_large_mean(v);
    }
    add_heads(v);
    time_norms(v);
}

/* Fewer and more channels than a tile of some groups has, blocks of places that are whole and that are not. */
void cases_group_norm(case_visitor *v) {
    static const int64_t shapes[][3] = {{1, 1, 1},     {2, 1, 5},     {6, 3, 7},    {8, 8, 33},     {24, 3, 50},   {64, 1, 9},
                                        {64, 64, 64},  {64, 32, 130}, {70, 35, 17}, {105, 35, 3},   {96, 2, 300},  {130, 1, 129},
                                        {200, 40, 65}, {320, 32, 16}, {512, 32, 1}, {1, 1, 20000},  {3, 3, 4097},  {7, 1, 700}};
    test_case c;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int last = 0; last < 2; last++)
            for (int kind = 0; kind < 4; kind++) {
                make_group_norm(&c, 1 + (int64_t)i % 3, shapes[i][0], shapes[i][1], shapes[i][2], last, (kind + (int)i) % 4,
                                kind == 3 ? (layout)(i % 4) : DENSE);
                if (kind == 1) case_specials(&c, 0);
                if (kind == 2) c.in_place = 0;
                if ((i + (size_t)kind) % 3 == 2) widen(&c);
                visit_case(v, &c);
            }
    for (int last = 0; last < 2; last++) {
        make_group_norm(&c, 2, 24, 3, 400, last, 3, DENSE);
        case_edit(&c, raise_mean, 3000, 0);
        case_note(&c, "large mean");
        c.tolerance = 3e-4; /* what rounding the inputs themselves to float leaves */
        visit_case(v, &c);
        make_group_norm(&c, 1, 2, 1, LONG_ROW / 2, last, 0, DENSE);
        case_edit(&c, raise_mean, 100, 0);
        case_note(&c, "large mean");
        c.tolerance = 2e-5;
        visit_case(v, &c);
        make_group_norm(&c, 0, 4, 2, 3, last, 3, DENSE);
        visit_case(v, &c);
        make_group_norm(&c, 2, 4, 2, 0, last, 3, DENSE);
        visit_case(v, &c);
        make_group_norm(&c, 4, 64, 32, 56 * 56, last, 3, DENSE);
        case_timed(&c, 8.0 * 4 * 64 * 56 * 56, "4 images of 56x56, 32 groups of 2 channels %s", last ? "last" : "first");
        visit_case(v, &c);
    }
}

void cases_embedding_norm(case_visitor *v) {
    for (int i = 0; i < WIDTHS; i++) {
        add_embedding_norm(v, widths[i], i);
        add_encoded_norms(v, widths[i], i);
    }
}

static void make_quantize_rows(test_case *c, int64_t rows, int64_t n, double largest, layout how) {
    case_begin(c, "quantize_rows", 1e-30, "rows=%ld n=%ld largest=%g layout=%d", (long)rows, (long)n, largest, (int)how);
    case_input(c, EB_F32, how, largest, SHAPE(2, rows, n));
    case_output(c, EB_I8, DENSE, SHAPE(2, rows, n));
    case_output(c, EB_F32, DENSE, SHAPE(2, rows, 1));
}

/* Every step is defined, so all bits are, but of NaN. Magnitudes to the limits of a float, and below its least normal one. */
void cases_quantize_rows(case_visitor *v) {
    static const double largest[] = {1, 0, 1e6, 3e38, 1e-36, 1e-39};
    test_case c;
    for (int i = 0; i < WIDTHS; i++)
        for (int how = DENSE; how <= SCATTERED; how++) {
            make_quantize_rows(&c, 1 + i % 3, widths[i], largest[(i + how) % 6], (layout)how);
            visit_case(v, &c);
            make_quantize_rows(&c, 4, widths[i], 3, (layout)how);
            case_specials(&c, 0);
            visit_case(v, &c);
        }
    for (int i = 0; i < 2; i++) {
        make_quantize_rows(&c, 3 * i, 3 * !i, 1, DENSE);
        visit_case(v, &c);
    }
    make_quantize_rows(&c, 300, 700, 1, DENSE); /* several tiles */
    visit_case(v, &c);
    for (int i = 0; i < STREAMS; i++) {
        const int64_t rows = streams[i][0], n = streams[i][1];
        make_quantize_rows(&c, rows / 2, n, 1, DENSE);
        case_timed(&c, 3.0 * (double)(rows * n), "%ld x %ld", (long)rows, (long)n);
        visit_case(v, &c);
    }
}

void cases_softmax(case_visitor *v) {
    test_case c;
    for (int i = 0; i < WIDTHS; i++) {
        make_softmax(&c, v->op, 1 + i % 3, widths[i], i % 3 != 0, (layout)(i % 4));
        visit_case(v, &c);
        make_softmax(&c, v->op, 4, widths[i], 1, DENSE);
        c.in_place = 0;
        visit_case(v, &c);
        make_softmax(&c, v->op, 6, widths[i], 1, DENSE);
        case_specials(&c, 0);
        visit_case(v, &c);
    }
    for (int i = 0; i < WIDTHS; i++)
        for (int rows = 2; rows < 200; rows = 3 * rows + 1) { /* over columns */
            make_softmax(&c, v->op, rows, widths[i], 0, (layout)(i % 4));
            case_note(&c, "columns");
            visit_case(v, &c);
            make_softmax(&c, v->op, rows + 1, widths[i], 0, DENSE);
            c.in_place = 0;
            case_specials(&c, 0);
            visit_case(v, &c);
        }
    make_softmax(&c, v->op, 3, 0, 1, DENSE);
    visit_case(v, &c);
    make_softmax(&c, v->op, 0, 3, 0, DENSE);
    visit_case(v, &c);
    make_softmax(&c, v->op, 700, 64, 1, DENSE);
    visit_case(v, &c);
    add_long_softmax(v, LONG_ROW + 5);
    if (strcmp(v->op, "softmax") == 0) add_long_softmax(v, STREAMED_ROW);
    for (int i = 0; i < STREAMS && strcmp(v->op, "softmax") == 0; i++) {
        const int64_t rows = streams[i][0], n = streams[i][1];
        make_softmax(&c, v->op, rows, n, 1, DENSE);
        case_timed(&c, 5.0 * (double)(rows * n), "%ld x %ld", (long)rows, (long)n);
        visit_case(v, &c);
    }
    make_softmax(&c, v->op, 21, 16384, 0, DENSE);
    case_timed(&c, 5.0 * 21 * 16384, "21 x 16384 over columns");
    visit_case(v, &c);
}

/* Ways to the same bits: kernels for two ops and for one, results that are large and parts of them. */
void test_bits_of_rows(void) {
    for (int i = 0; i < WIDTHS; i++) {
        check_bits_of_two_ops("layer_norm", widths[i]);
        check_bits_of_two_ops("rms_norm", widths[i]);
        for (int terms = 1; terms <= 3; terms++)
            for (int norm = 0; norm < 2; norm++) check_bits_of_gathers(3, widths[i], terms, norm);
    }
    check_bits_of_gathers(4096, 1024, 3, 0); /* written past the caches */
    check_large_results();
}
