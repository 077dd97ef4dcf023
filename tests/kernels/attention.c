/* attention: sizes around every block edge, masks of every kind, grouped heads, rows with nothing to attend to. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "suite.h"

void make_attention(test_case *c, const attention_shape *s) {
    /* Weights sum to 1 and values lie below 1: the error is that of the scores and of exp. */
    case_begin(c, "attention", 4e-6, "B=%ld H=%ld G=%ld S=%ld T=%ld D=%ld E=%ld mask=%d causal=%d zero=%d swap=%d layout=%d%s",
               (long)s->B, (long)s->H, (long)s->G, (long)s->S, (long)s->T, (long)s->D, (long)s->E, (int)s->mask, s->causal,
               s->zero, s->transpose_output, (int)s->how, s->bfloat ? " bfloat16" : "");
    const eb_dtype kept = s->bfloat ? EB_BF16 : EB_F32;
    case_input(c, EB_F32, s->how, 1, SHAPE(s->B, s->H, s->S, s->D));
    case_input(c, kept, s->how, 1, SHAPE(s->B, s->G, s->T, s->D));
    case_input(c, kept, s->how, 1, SHAPE(s->B, s->G, s->T, s->E));
    eb_dtype dtype = s->mask == BOOL_FULL || s->mask == BOOL_KEYS ? EB_BOOL : EB_F32;
    if (s->mask == NO_MASK)
        case_absent(c);
    else if (s->mask == BOOL_KEYS || s->mask == FLOAT_KEYS)
        case_input(c, dtype, DENSE, 2, SHAPE(s->B, 1, 1, s->T));
    else if (s->mask == FLOAT_PLAIN)
        case_input(c, dtype, PADDED, 2, SHAPE(s->S, s->T));
    else
        case_input(c, dtype, DENSE, 2, SHAPE(s->B, s->H, s->S, s->T));
    if (s->transpose_output)
        case_output(c, EB_F32, DENSE, SHAPE(s->B, s->S, s->H, s->E));
    else
        case_output(c, EB_F32, DENSE, SHAPE(s->B, s->H, s->S, s->E));
    c->node.n_ints = 3;
    c->ints[EB_INT_ATTENTION_CAUSAL] = s->causal;
    c->ints[EB_INT_ATTENTION_MASKED_ROWS] = s->zero ? EB_ATTENTION_MASKED_ROWS_ZERO : EB_ATTENTION_MASKED_ROWS_NAN;
    c->ints[EB_INT_ATTENTION_TRANSPOSE_OUTPUT] = s->transpose_output;
    c->node.n_reals = 1;
    c->reals[EB_REAL_ATTENTION_SCALE] = 1 / sqrt((double)(s->D ? s->D : 1));
}

/* With keys and values of floats, and of bfloat16. */
static void add_shape(case_visitor *v, attention_shape s) {
    for (s.bfloat = 0; s.bfloat < 2; s.bfloat++) {
        test_case c;
        make_attention(&c, &s);
        visit_case(v, &c);
    }
}

/* A shape whose mask is changed; `what` tells it apart from the plain one. With keys and values of floats, and of bfloat16. */
static void add_edited(case_visitor *v, attention_shape s, edit_function *edit, int64_t a, int64_t b, const char *what) {
    for (s.bfloat = 0; s.bfloat < 2; s.bfloat++) {
        test_case c;
        make_attention(&c, &s);
        case_edit(&c, edit, a, b);
        case_note(&c, "%s %ld", what, (long)a);
        visit_case(v, &c);
    }
}

/* Every third row of the first mask lets nothing through. */
static void mask_rows(test_case *c, int64_t queries, int64_t keys) {
    for (int64_t row = 0; row < queries; row += 3)
        for (int64_t t = 0; t < keys; t++) {
            if (c->operands[3].dtype == EB_BOOL)
                ((uint8_t *)c->data[3])[row * keys + t] = 0;
            else
                ((float *)c->data[3])[row * keys + t] = -INFINITY;
        }
}

static void add_masked_rows(case_visitor *v, attention_shape s) { add_edited(v, s, mask_rows, s.S, s.T, "masked rows of"); }

/* Rows of the mask hold the least float, as models write it: finite, so a row of nothing else weighs its keys alike, and
 * beside other keys it weighs nothing. Near the largest float one key takes all. */
static void put_extremes(test_case *c, int64_t keys, int64_t b) {
    (void)b;
    float *mask = c->data[3];
    int64_t rows = c->bytes[3] / 4 / keys;
    for (int64_t row = 0; row < rows; row++)
        for (int64_t t = 0; t < keys; t++) {
            if (row % 4 == 0) mask[row * keys + t] = -FLT_MAX;
            if (row % 4 == 1 && t % 3) mask[row * keys + t] = t % 3 == 1 ? -FLT_MAX : -2.5e38f;
            if (row % 4 == 2) mask[row * keys + t] = t == keys / 2 ? -2.6e38f : -3e38f;
            if (row % 4 == 3 && t == keys / 3) mask[row * keys + t] = 3e38f;
        }
}

static void add_extreme_masks(case_visitor *v, attention_shape s) { add_edited(v, s, put_extremes, s.T, 0, "extremes in rows of"); }

/* The first `gone` keys take no part, which are whole blocks and whole parts of the keys. */
static void mask_keys(test_case *c, int64_t gone, int64_t b) {
    (void)b;
    for (int64_t t = 0; t < gone; t++) ((uint8_t *)c->data[3])[t] = 0;
}

/* A cache: text b holds `held` keys and 37 * b more; there is room for others behind them, whose values do not matter. */
static void mask_free_room(test_case *c, int64_t held, int64_t keys) {
    for (int64_t t = 0; t < c->bytes[3]; t++) ((uint8_t *)c->data[3])[t] = t % keys < held + 37 * (t / keys);
}

/* An infinity among the keys, or a NaN among queries or values: the upper half of a float is the bfloat16. */
static void put_special(test_case *c, int64_t input, int64_t b) {
    (void)b;
    const int is_narrow = c->operands[input].dtype == EB_BF16;
    if (is_narrow)
        ((uint16_t *)c->data[input])[random_below(c->bytes[input] / 2)] = input == 1 ? 0x7f80 : 0x7fc0;
    else
        ((float *)c->data[input])[random_below(c->bytes[input] / 4)] = input == 1 ? INFINITY : NAN;
}

static void add_specials(case_visitor *v, int64_t queries, int64_t keys) {
    for (int input = 0; input < 3; input++)
        add_edited(v, (attention_shape){1, 2, 2, queries, keys, 16, 24, NO_MASK, 0, 1, 0, DENSE}, put_special, input, 0, "special in");
}

static void add_sizes(case_visitor *v) {
    static const int64_t S[] = {1, 2, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 65};
    static const int64_t T[] = {1, 2, 31, 64, 127, 128, 129, 300};
    static const int64_t D[] = {1, 3, 8, 16, 17, 32, 64, 80};
    for (int i = 0; i < 13; i++)
        for (int j = 0; j < 8; j++) {
            attention_shape s = {2, 2, 1 + j % 2, S[i], T[j], D[(i + j) % 8], D[(2 * i + j) % 8], (mask_kind)((i + j) % MASK_KINDS),
                                 (i + 2 * j) % 3 == 0, i % 2, j % 2, (layout)((i + j) % 4)};
            add_shape(v, s);
        }
    add_shape(v, (attention_shape){1, 4, 2, 20, 20, 256, 130, NO_MASK, 1, 1, 1, DENSE});
    add_shape(v, (attention_shape){1, 1, 1, 5, 9, 1100, 1100, NO_MASK, 0, 1, 0, DENSE});
    for (int zero = 0; zero < 2; zero++) add_shape(v, (attention_shape){1, 2, 2, 3, 0, 4, 5, NO_MASK, 0, zero, 0, DENSE});
    add_shape(v, (attention_shape){1, 2, 2, 0, 3, 4, 5, NO_MASK, 0, 1, 0, DENSE});
    add_shape(v, (attention_shape){1, 2, 2, 3, 3, 0, 5, NO_MASK, 0, 1, 0, DENSE});
    for (int heads = 0; heads < 3; heads += 2) /* no query heads; no query or key heads */
        for (int64_t queries = 0; queries <= 40; queries += queries ? 39 : 1)
            add_shape(v, (attention_shape){1, 0, heads, queries, 1, 4, 4, NO_MASK, 0, 1, 0, DENSE});
}

/* Few queries: groups of heads, sizes that are no whole vectors, every mask, keys beyond a block. Then few of few heads: keys
 * are cut into parts that are joined. */
static void add_few_queries(case_visitor *v) {
    for (int64_t few = 1; few <= 7; few++)
        for (int mask = 0; mask < MASK_KINDS; mask++)
            add_shape(v, (attention_shape){2, 6, few % 2 ? 2 : 6, few, 130 + 9 * mask + few, few % 3 ? 64 : 37, mask % 2 ? 130 : 21,
                                           (mask_kind)mask, few == 5, mask % 2, mask % 3 == 0, mask % 2 ? PADDED : DENSE});
    for (int mask = 0; mask < MASK_KINDS; mask++) {
        int64_t few = 1 + mask % 3, keys = 1023 + mask;
        add_shape(v, (attention_shape){1, 4, 2, few, keys, 16 + mask, 21 + mask, (mask_kind)mask, 0, mask % 2, mask % 3 == 0, DENSE});
        add_shape(v, (attention_shape){2, 1, 1, few, 2 * keys + 500, 32, 64, (mask_kind)mask, mask == 2, mask % 2, 0, PADDED});
    }
    for (int64_t queries = 1; queries <= 2; queries++)
        for (int64_t held = 0; held <= 1409; held = held < 126 ? 126 : held < 130 ? held + 1 : held + 256)
            add_edited(v, (attention_shape){3, 4, 2, queries, 1500, 16, 20, BOOL_KEYS, 0, held % 2, 0, DENSE}, mask_free_room, held,
                       1500, "held keys");
}

static void add_masks(case_visitor *v, int zero) {
    for (int causal = 0; causal < 2; causal++) {
        add_masked_rows(v, (attention_shape){1, 1, 1, 4, 140, 16, 20, BOOL_FULL, causal, zero, 0, DENSE});
        add_masked_rows(v, (attention_shape){1, 1, 1, 5, 140, 16, 20, FLOAT_FULL, causal, zero, 1, DENSE});
        add_masked_rows(v, (attention_shape){1, 1, 1, 37, 140, 16, 20, BOOL_FULL, causal, zero, 0, DENSE});
        add_masked_rows(v, (attention_shape){1, 1, 1, 37, 140, 16, 20, FLOAT_FULL, causal, zero, 1, DENSE});
        add_extreme_masks(v, (attention_shape){2, 2, 1, 5, 140, 16, 20, FLOAT_FULL, causal, zero, 1, DENSE});
        add_extreme_masks(v, (attention_shape){2, 2, 2, 37, 140, 16, 20, FLOAT_FULL, causal, zero, 0, DENSE});
        add_extreme_masks(v, (attention_shape){5, 2, 1, 37, 143, 16, 20, FLOAT_KEYS, causal, zero, 0, DENSE});
    }
    add_masked_rows(v, (attention_shape){1, 1, 1, 2, 1400, 16, 20, BOOL_FULL, 0, zero, 0, DENSE});
    add_masked_rows(v, (attention_shape){1, 1, 1, 2, 1400, 16, 20, FLOAT_FULL, 0, zero, 0, DENSE});
    add_extreme_masks(v, (attention_shape){2, 2, 1, 2, 1400, 16, 20, FLOAT_FULL, 0, zero, 0, DENSE});
    add_extreme_masks(v, (attention_shape){5, 2, 1, 1, 1400, 16, 20, FLOAT_KEYS, 0, zero, 0, DENSE});
    for (int64_t gone = 511; gone <= 1536; gone += gone == 511 ? 1 : 512)
        add_edited(v, (attention_shape){1, 3, 1, 1, 1536, 16, 20, BOOL_KEYS, 0, zero, 0, DENSE}, mask_keys, gone, 0, "masked keys");
}

static void mask_nothing(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    memset(c->data[3], 1, (size_t)c->bytes[3]);
}

static void time_heads(case_visitor *v) {
    static const attention_shape shapes[] = {
        {1, 12, 12, 128, 128, 64, 64, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 384, 384, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 512, 512, 64, 64, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 1024, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 128, 128, 64, 64, NO_MASK, 1, 1, 0, DENSE},   {1, 12, 12, 512, 512, 64, 64, NO_MASK, 1, 1, 0, DENSE},
        {1, 12, 12, 128, 128, 64, 64, BOOL_KEYS, 0, 1, 0, DENSE}, {1, 12, 12, 128, 128, 64, 64, FLOAT_FULL, 0, 1, 0, DENSE},
        {1, 12, 12, 384, 384, 32, 32, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 384, 384, 128, 128, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 16, 16, 64, 64, NO_MASK, 0, 1, 0, DENSE},     {1, 12, 12, 1, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 4, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},    {1, 16, 8, 1, 1024, 128, 128, NO_MASK, 0, 1, 0, DENSE},
        {1, 16, 8, 1, 8192, 128, 128, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 1, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE, 1},
        {1, 16, 8, 1, 1024, 128, 128, NO_MASK, 0, 1, 0, DENSE, 1}, {1, 16, 8, 1, 8192, 128, 128, NO_MASK, 0, 1, 0, DENSE, 1},
        {1, 12, 12, 128, 128, 64, 64, NO_MASK, 0, 1, 0, DENSE, 1}};
    static const char *const masks[] = {"", ", bool mask", ", mask of keys", ", float mask", ", float keys", ", float plain"};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const attention_shape *s = &shapes[i];
        test_case c;
        make_attention(&c, s);
        if (s->mask == BOOL_KEYS || s->mask == BOOL_FULL) case_edit(&c, mask_nothing, 0, 0);
        double pairs = s->causal ? (double)(s->S * (s->S + 1)) / 2 : (double)(s->S * s->T);
        case_timed(&c, 2.0 * (double)(s->B * s->H * (s->D + s->E)) * pairs, "%ld/%ld heads, %ld x %ld x %ld%s%s%s", (long)s->H,
                   (long)s->G, (long)s->S, (long)s->T, (long)s->D, masks[s->mask], s->causal ? ", causal" : "",
                   s->bfloat ? ", kept in bfloat16" : "");
        visit_case(v, &c);
    }
}

void cases_attention(case_visitor *v) {
    add_sizes(v);
    for (int zero = 0; zero < 2; zero++) add_masks(v, zero);
    add_specials(v, 2, 50);
    add_specials(v, 40, 50);
    add_specials(v, 2, 1400);
    add_few_queries(v);
    time_heads(v);
}
