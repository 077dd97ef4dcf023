/* The driver of the cases. A case is one node with its operands: an op, shapes, layouts, attributes, which inputs are
 * constant, a tolerance, special numbers, and its roles (case.h): checked against the reference kernel, timed, or both.
 *
 * Each op has one provider, a function that describes all cases of the op from tables and from loops over the sizes at
 * which kernels change their way. The table below names the provider of each op. These commands of test_kernels walk it:
 *
 *   test_kernels                    checks the cases and then that every kernel of the registry took one
 *   test_kernels share=N            the same with about one case in N: where instructions are emulated or instrumented
 *   test_kernels check [PART]       checks those cases alone that PART chooses
 *   test_kernels list [PART]        prints them: roles, then the name, which begins with the op
 *   test_kernels bench ISA [PART]   times them (bench.c)
 *
 * PART is a part of a case's name or of the name of a kernel of its op; for bench, of the name of a kernel.
 *
 * A provider describes a case with a case_begin and what follows it in case.h, then calls visit_case. Nothing is allocated
 * until the driver wants the case, so listing is quick and large shapes can be listed beside small ones. Shapes that are
 * drawn at random are drawn before the case begins, after a random_seed of their own.
 *
 * To add a case, add a row or a loop to the provider of its op. To add an op, write its provider and add its row here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* Timed in this order. */
static const struct {
    const char *op;
    case_provider *provide;
} providers[] = {
    {"linear", cases_linear},
    {"gated_linear", cases_gated_linear},
    {"matmul", cases_matmul},
    {"conv", cases_conv},
    {"max_pool", cases_pool},
    {"avg_pool", cases_pool},
    {"expand_depthwise", cases_expand_depthwise},
    {"conv_transpose", cases_conv_transpose},
    {"resample", cases_resample},
    {"grid_sample", cases_grid_sample},
    {"pad", cases_pad},
    {"attention", cases_attention},
    {"gelu", cases_unary},
    {"exp", cases_unary},
    {"tanh", cases_unary},
    {"relu", cases_unary},
    {"expm1", cases_unary},
    {"log", cases_unary},
    {"log1p", cases_unary},
    {"sin", cases_unary},
    {"floor", cases_unary},
    {"neg", cases_unary},
    {"abs", cases_unary},
    {"sqrt", cases_unary},
    {"rsqrt", cases_unary},
    {"reciprocal", cases_unary},
    {"sigmoid", cases_unary},
    {"erf", cases_unary},
    {"silu", cases_unary},
    {"sign", cases_unary},
    {"ceil", cases_unary},
    {"cos", cases_unary},
    {"exp2", cases_unary},
    {"log2", cases_unary},
    {"tan", cases_unary},
    {"atan", cases_unary},
    {"sinh", cases_unary},
    {"cosh", cases_unary},
    {"round", cases_unary},
    {"trunc", cases_unary},
    {"add", cases_binary},
    {"sub", cases_binary},
    {"mul", cases_binary},
    {"div", cases_binary},
    {"maximum", cases_binary},
    {"minimum", cases_binary},
    {"pow", cases_binary},
    {"atan2", cases_binary},
    {"fmod", cases_binary},
    {"remainder", cases_binary},
    {"shift_left", cases_of_integers},
    {"shift_right", cases_of_integers},
    {"floor_div", cases_of_integers},
    {"layer_norm", cases_norm},
    {"rms_norm", cases_norm},
    {"group_norm", cases_group_norm},
    {"embedding_norm", cases_embedding_norm},
    {"rope", cases_rope},
    {"quantize_rows", cases_quantize_rows},
    {"softmax", cases_softmax},
    {"log_softmax", cases_softmax},
    {"sum", cases_reduction},
    {"amax", cases_reduction},
    {"var", cases_reduction},
    {"mean", cases_reduction},
    {"prod", cases_reduction},
    {"amin", cases_reduction},
    {"any", cases_reduction},
    {"all", cases_reduction},
    {"argmax", cases_along_axis},
    {"argmin", cases_along_axis},
    {"cumsum", cases_along_axis},
    {"cumprod", cases_along_axis},
    {"argsort", cases_argsort},
    {"pointwise", cases_pointwise},
    {"copy", cases_copy},
    {"concat", cases_concat},
    {"flip", cases_flip},
    {"tril", cases_triangle},
    {"triu", cases_triangle},
    {"cast", cases_cast},
    {"where", cases_where},
    {"eq", cases_comparison},
    {"ne", cases_comparison},
    {"lt", cases_comparison},
    {"le", cases_comparison},
    {"gt", cases_comparison},
    {"ge", cases_comparison},
    {"isnan", cases_comparison},
    {"isinf", cases_comparison},
    {"bitwise_and", cases_integer},
    {"bitwise_or", cases_integer},
    {"bitwise_xor", cases_integer},
    {"bitwise_not", cases_integer},
    {"logical_and", cases_integer},
    {"logical_or", cases_integer},
    {"logical_xor", cases_integer},
    {"logical_not", cases_integer},
    {"full", cases_full},
    {"arange", cases_arange},
    {"embedding", cases_embedding},
    {"index_select", cases_index_select},
    {"index", cases_index},
    {"gather", cases_gather},
    {"index_put", cases_index_put},
    {"scatter", cases_scatter},
    {"selective_scan", cases_selective_scan},
};

/* --- walking the table --- */

void walk_cases(case_visitor *v) {
    for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) {
        v->op = providers[i].op;
        providers[i].provide(v);
    }
}

/* A timed case has the name under which results are stored; the name of another one tells what its op's maker does not. */
void visit_case(case_visitor *v, test_case *c) {
    if (!(c->roles & TIMED)) {
        if (c->constant) case_note(c, "constant=%u", c->constant);
        if (c->specials) case_note(c, "specials=%u", c->specials);
        if (c->in_place >= 0) case_note(c, "in_place=%d", c->in_place);
    }
    v->visit(v, c);
    case_end(c);
}

int is_one_of(const char *op, const char *const *ops, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(ops[i], op) == 0) return 1;
    return 0;
}

/* --- what holds for every case --- */

/* A set of the names' hashes, which are what seeds the random numbers. */
enum { NAME_SLOTS = 1 << 17 };
static uint64_t names[NAME_SLOTS];
static int name_count;

static int add_name(const char *name) {
    const uint64_t hash = hash_name(name) | 1; /* 0: an empty slot */
    uint64_t slot = hash >> 32;
    for (; names[slot % NAME_SLOTS]; slot++)
        if (names[slot % NAME_SLOTS] == hash) return 0;
    names[slot % NAME_SLOTS] = hash;
    if (++name_count == NAME_SLOTS / 2) fail("more than %d cases: make the set of names larger", NAME_SLOTS / 2);
    return 1;
}

static void check_description(const case_visitor *v, const test_case *c) {
    if (strcmp(c->op, v->op) != 0) fail("%s is listed by the provider of %s", c->name, v->op);
    if (strlen(c->name) == sizeof c->name - 1) fail("%s: the name is too long", c->name);
    if (!add_name(c->name)) fail("%s: two cases have this name", c->name);
}

static int is_part_chosen(const test_case *c, const char *part) {
    if (strstr(c->name, part)) return 1;
    for (int32_t k = 0; k < eb_kernel_count(); k++)
        if (strcmp(eb_kernel_describe(k).op, c->op) == 0 && strstr(eb_kernel_describe(k).name, part)) return 1;
    return 0;
}

/* --- checking and listing --- */

/* Whether a kernel takes the case, whose data need not be there. */
static int takes(const test_case *c, int32_t k) {
    eb_node node = c->node;
    eb_tensor operands[MOST_OPERANDS];
    memcpy(operands, c->operands, sizeof operands);
    node.kernel = k;
    node.wanted = 1;
    node.operands = operands;
    for (int i = 0; i < node.n_inputs; i++)
        operands[i].is_packed = (c->constant >> i & 1) && eb_layout_of(&node, i).packing;
    const eb_status status = eb_plan_node(&node);
    return status != EB_NOT_APPLICABLE && status != EB_NEEDS_DENSE;
}

/* One in `share` of the cases, by their names; and of each kernel the first few. */
static int is_in_share(const test_case *c, int share) {
    enum { FIRST = 4 };
    if (hash_name(c->name) % (uint64_t)share == 0) return 1;
    for (int32_t k = 0; k < eb_kernel_count(); k++)
        if (kernel_runs[k] < FIRST && strcmp(eb_kernel_describe(k).op, c->op) == 0 && runs_here(k) && takes(c, k)) return 1;
    return 0;
}

static void check_one(case_visitor *v, test_case *c) {
    check_description(v, c);
    if (!(c->roles & CHECKED) || !is_part_chosen(c, v->part)) return;
    if (!is_in_share(c, v->share)) return;
    case_fill(c);
    case_check(c);
}

static void list_one(case_visitor *v, test_case *c) {
    static const char *const roles[] = {"-", "checked", "timed", "checked,timed"};
    check_description(v, c);
    if (is_part_chosen(c, v->part)) printf("%s\t%s\n", roles[c->roles & 3], c->name);
}

void check_cases(const char *part, int share) { walk_cases(&(case_visitor){.visit = check_one, .part = part, .share = share}); }
void list_cases(const char *part) { walk_cases(&(case_visitor){.visit = list_one, .part = part}); }

/* A kernel that no case reached would be untested. Ops with a reference kernel alone are tested from Python. */
void check_coverage(void) {
    for (int32_t k = 0; k < eb_kernel_count(); k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (!runs_here(k) || strcmp(info.variant, "reference") == 0 || kernel_runs[k] > 0) continue;
        int is_listed = 0;
        for (size_t i = 0; i < sizeof providers / sizeof providers[0]; i++) is_listed |= strcmp(providers[i].op, info.op) == 0;
        fail("%s took no case%s", info.name, is_listed ? "" : ": its op has no row in the table of cases.c");
    }
}
