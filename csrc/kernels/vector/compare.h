/* Comparisons of floats, isnan and isinf, which answer bools; casts between floats, integers and bools of 4 and 8 bytes.
 * Loops of plain C that the compiler turns into vectors of any width, over the same runs as pointwise.h. */
#include "../../ops.h"
#include "vec.h"

enum { TILE_ELEMENTS = 16384 };

static eb_loop loop_of(const eb_node *node) {
    const eb_tensor *tensors[EB_LOOP_OPERANDS] = {eb_output(node)};
    for (int i = 0; i < node->n_inputs; i++) tensors[i + 1] = eb_input(node, i);
    return eb_loop_broadcast(eb_output(node), node->n_inputs + 1, tensors);
}

/* Tiles are runs of TILE_ELEMENTS of the loop's row-major order. */
static eb_status plan_runs(eb_node *node) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1;
    if (loop.stride[0][inner] != 1 && loop.shape[inner] > 1) return EB_NOT_APPLICABLE;
    for (int o = 1; o < loop.operands; o++)
        if (loop.stride[o][inner] != 0 && loop.stride[o][inner] != 1) return EB_NEEDS_DENSE;
    node->tiles = eb_ceil_div(loop.count, TILE_ELEMENTS);
    return EB_OK;
}

static eb_status plan_test(eb_node *node) {
    for (int i = 0; i < node->n_inputs; i++)
        if (eb_input(node, i)->dtype != EB_F32) return EB_NOT_APPLICABLE;
    return eb_output(node)->dtype == EB_BOOL ? plan_runs(node) : EB_NOT_APPLICABLE;
}

/* y[0 .. count) of a and b, each contiguous or (step 0) one value. */
typedef void (*apply)(void *y, const void *a, const void *b, int64_t count, int64_t a_step, int64_t b_step);

static const int64_t sizes[] = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1};

static eb_status run_runs(const eb_node *node, void *const *bases, int64_t begin, int64_t end, apply function) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1, last = node->n_inputs - 1;
    int64_t flat = begin * TILE_ELEMENTS, flat_end = eb_min(loop.count, end * TILE_ELEMENTS);
    int64_t x_size = sizes[eb_input(node, 0)->dtype], y_size = sizes[eb_output(node)->dtype];
    const char *a = eb_data(eb_input(node, 0), bases), *b = eb_data(eb_input(node, last), bases);
    char *y = eb_data(eb_output(node), bases);
    eb_cursor at;
    eb_cursor_seek(&loop, &at, flat);
    while (flat < flat_end) {
        int64_t run = eb_cursor_run(&loop, &at, flat_end - flat);
        function(y + at.offset[0] * y_size, a + at.offset[1] * x_size, b + at.offset[last + 1] * x_size, run,
                 loop.stride[1][inner], loop.stride[last + 1][inner]);
        eb_cursor_advance(&loop, &at, run);
        flat += run;
    }
    return EB_OK;
}

#define RUN(op, function)                                                                                          \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_runs(n, bases, begin, end, function);                                                           \
    }

/* --- tests of floats ----------------------------------------------------------------------------------------------- */

/* The steps are constants in each of the loops, or the compiler would make none of them a loop of vectors. */
#define TEST(op, expression)                                                                                        \
    EB_INLINE void test_##op(uint8_t *y, const float *x, const float *z, int64_t count, const int a_step,           \
                             const int b_step) {                                                                    \
        for (int64_t i = 0; i < count; i++) {                                                                       \
            float a = x[i * a_step], b = z[i * b_step];                                                             \
            (void)b;                                                                                                \
            y[i] = (expression);                                                                                    \
        }                                                                                                           \
    }                                                                                                               \
    static void apply_##op(void *y, const void *a, const void *b, int64_t count, int64_t a_step, int64_t b_step) {  \
        if (a_step && b_step)                                                                                       \
            test_##op(y, a, b, count, 1, 1);                                                                        \
        else if (a_step)                                                                                            \
            test_##op(y, a, b, count, 1, 0);                                                                        \
        else                                                                                                        \
            test_##op(y, a, b, count, 0, b_step != 0);                                                              \
    }                                                                                                               \
    RUN(op, apply_##op)                                                                                             \
    const eb_kernel EB_SYMBOL(op, vector) = {plan_test, run_##op, NULL, NULL};

TEST(eq, a == b)
TEST(ne, a != b)
TEST(lt, a < b)
TEST(le, a <= b)
TEST(gt, a > b)
TEST(ge, a >= b)
TEST(isnan, a != a)
TEST(isinf, fabsf(a) == INFINITY)

/* --- casts --------------------------------------------------------------------------------------------------------- */

#define CAST(name, from, to, value)                                                                                 \
    static void cast_##name(void *y, const void *x, const void *same, int64_t count, int64_t step, int64_t again) { \
        (void)same, (void)again;                                                                                    \
        to *target = y;                                                                                             \
        const from *source = x;                                                                                     \
        if (step)                                                                                                   \
            for (int64_t i = 0; i < count; i++) {                                                                   \
                from v = source[i];                                                                                 \
                target[i] = (to)(value);                                                                            \
            }                                                                                                       \
        else                                                                                                        \
            for (int64_t i = 0; i < count; i++) {                                                                   \
                from v = source[0];                                                                                 \
                target[i] = (to)(value);                                                                            \
            }                                                                                                       \
    }
/* What does not fit becomes the smallest integer, as in the reference. */
CAST(f32_i32, float, int32_t, v >= -0x1p31f && v < 0x1p31f ? v : INT32_MIN)
CAST(f32_i64, float, int64_t, v >= -0x1p63f && v < 0x1p63f ? (int64_t)v : INT64_MIN)
CAST(f32_bool, float, uint8_t, v != 0)
CAST(i32_f32, int32_t, float, v)
CAST(i64_f32, int64_t, float, (double)v) /* through double, as the reference: it rounds twice beyond 2^53 */
CAST(i32_i64, int32_t, int64_t, v)
CAST(i64_i32, int64_t, int32_t, v)
CAST(i32_bool, int32_t, uint8_t, v != 0)
CAST(i64_bool, int64_t, uint8_t, v != 0)
CAST(bool_f32, uint8_t, float, v)
CAST(bool_i32, uint8_t, int32_t, v)
CAST(bool_i64, uint8_t, int64_t, v)

static apply cast_of(int32_t from, int32_t to) {
    static const struct {
        int32_t from, to;
        apply function;
    } casts[] = {{EB_F32, EB_I32, cast_f32_i32},   {EB_F32, EB_I64, cast_f32_i64},   {EB_F32, EB_BOOL, cast_f32_bool},
                 {EB_I32, EB_F32, cast_i32_f32},   {EB_I64, EB_F32, cast_i64_f32},   {EB_I32, EB_I64, cast_i32_i64},
                 {EB_I64, EB_I32, cast_i64_i32},   {EB_I32, EB_BOOL, cast_i32_bool}, {EB_I64, EB_BOOL, cast_i64_bool},
                 {EB_BOOL, EB_F32, cast_bool_f32}, {EB_BOOL, EB_I32, cast_bool_i32}, {EB_BOOL, EB_I64, cast_bool_i64}};
    for (size_t i = 0; i < sizeof casts / sizeof casts[0]; i++)
        if (casts[i].from == from && casts[i].to == to) return casts[i].function;
    return NULL;
}

static eb_status plan_cast(eb_node *node) {
    return cast_of(eb_input(node, 0)->dtype, eb_output(node)->dtype) ? plan_runs(node) : EB_NOT_APPLICABLE;
}
RUN(cast, cast_of(eb_input(n, 0)->dtype, eb_output(n)->dtype))
const eb_kernel EB_PASTE(any_, cast, __, EB_ISA, _, vector) = {plan_cast, run_cast, NULL, NULL};
