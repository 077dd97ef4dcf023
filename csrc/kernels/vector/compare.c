/* Comparisons of floats, isnan and isinf, which answer bools. */
#include "runs.h"

static eb_status plan_test(eb_node *node) {
    for (int i = 0; i < node->n_inputs; i++)
        if (eb_input(node, i)->dtype != EB_F32) return EB_NOT_APPLICABLE;
    return eb_output(node)->dtype == EB_BOOL ? plan_runs(node) : EB_NOT_APPLICABLE;
}

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
    ELEMENTWISE_RUN(op, apply_##op)                                                                                 \
    const eb_kernel EB_SYMBOL(op, vector) = {plan_test, run_##op};

TEST(eq, a == b)
TEST(ne, a != b)
TEST(lt, a < b)
TEST(le, a <= b)
TEST(gt, a > b)
TEST(ge, a >= b)
TEST(isnan, a != a)
TEST(isinf, fabsf(a) == INFINITY)
