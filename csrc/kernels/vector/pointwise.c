/* Pointwise ops on floats. Operands may broadcast; along the inner axis each is contiguous or one value. */
#include "../../ops.h"
#include "../../stream.h"
#include "activation.h"
#include "circular.h"
#include "elementwise.h"
#include "floats16.h"
#include "logarithm.h"

enum {
    TILE_ELEMENTS = 16384,
    PIECE = 256 /* elements computed in cache on their way past it: so few that reading and writing overlap */
};

typedef struct {
    int64_t rows;     /* rows a tile */
    int64_t elements; /* elements of a row that a tile has */
    int64_t pieces;   /* pieces a row */
    int64_t stream;   /* whether the result goes past the caches */
} tiling;
EB_NODE_PLAN(tiling)

static eb_loop loop_of(const eb_node *node) {
    const eb_tensor *tensors[EB_LOOP_OPERANDS] = {eb_output(node)};
    for (int i = 0; i < node->n_inputs; i++) tensors[i + 1] = eb_input(node, i);
    return eb_loop_broadcast(eb_output(node), node->n_inputs + 1, tensors);
}

/* Tiles, for element types that are known to fit. */
static eb_status plan_loop(eb_node *node) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1;
    if (loop.stride[0][inner] != 1 && loop.shape[inner] > 1) return EB_NOT_APPLICABLE;
    for (int o = 1; o < loop.operands; o++)
        if (loop.stride[o][inner] != 0 && loop.stride[o][inner] != 1) return EB_NEEDS_DENSE;
    if (loop.count == 0) return EB_OK;
    int64_t size = loop.shape[inner], rows = loop.count / size;
    edit_tiling(node)->pieces = eb_ceil_div(size, TILE_ELEMENTS);
    edit_tiling(node)->elements = tiling_of(node)->pieces > 1 ? TILE_ELEMENTS : size;
    edit_tiling(node)->rows = eb_max(1, TILE_ELEMENTS / size);
    edit_tiling(node)->stream = eb_output(node)->dtype == EB_F32 && eb_size(eb_output(node)) * 4 >= EB_STREAM_BYTES;
    node->tiles = eb_ceil_div(rows, tiling_of(node)->rows) * tiling_of(node)->pieces;
    return EB_OK;
}

static eb_status plan(eb_node *node) {
    for (int i = 0; i <= node->n_inputs; i++)
        if (node->operands[i].dtype != EB_F32) return EB_NOT_APPLICABLE;
    return plan_loop(node);
}

/* One run of elements: pointers to the output and the inputs, and which of the inputs are one value. */
typedef struct {
    float *y;
    const void *input[2];
    int is_value[2];
    int64_t count;
} run_of;

typedef void (*pointwise_function)(const run_of *r);

/* The run in short pieces, each computed in cache and from there past it. */
static void run_past_caches(run_of r, int n_inputs, pointwise_function function) {
    float piece[PIECE], *y = r.y;
    for (int64_t left = r.count; left > 0; left -= r.count, y += r.count) {
        r.y = piece;
        r.count = eb_min(PIECE, left);
        function(&r);
        eb_stream(y, piece, r.count * 4);
        for (int i = 0; i < n_inputs; i++)
            if (!r.is_value[i]) r.input[i] = (const float *)r.input[i] + r.count;
    }
}

static eb_status run_pointwise(const eb_node *node, void *const *bases, int64_t begin, int64_t end, pointwise_function function) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1;
    int64_t size = loop.shape[inner], rows = loop.count / size;
    int64_t pieces = tiling_of(node)->pieces, elements = tiling_of(node)->elements, each = tiling_of(node)->rows;
    const int streams = tiling_of(node)->stream != 0;
    float *y = eb_data(eb_output(node), bases);
    const float *inputs[2];
    for (int i = 0; i < node->n_inputs; i++) inputs[i] = eb_data(eb_input(node, i), bases);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t first = tile / pieces * each, last = eb_min(rows, first + each), start = tile % pieces * elements;
        run_of r = {.count = eb_min(elements, size - start)};
        eb_cursor at;
        eb_cursor_seek(&loop, &at, first * size + start);
        for (int64_t i = first; i < last; i++) {
            r.y = y + at.offset[0];
            for (int o = 0; o < node->n_inputs; o++) {
                r.input[o] = inputs[o] + at.offset[o + 1];
                r.is_value[o] = loop.stride[o + 1][inner] == 0;
            }
            if (streams)
                run_past_caches(r, node->n_inputs, function);
            else
                function(&r);
            if (i + 1 < last) eb_cursor_advance(&loop, &at, size); /* several rows a tile: each is whole */
        }
    }
    if (streams) eb_stream_end();
    return EB_OK;
}

#define POINTWISE_RUN(op, function)                                                                                \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_pointwise(n, bases, begin, end, function);                                                      \
    }

/* --- loading a run: contiguous, or one value again and again ------------------------------------------------------- */

EB_INLINE vf load_full(const void *p, int64_t i, int is_value) {
    return is_value ? vf_set(*(const float *)p) : vf_load((const float *)p + i);
}
EB_INLINE vf load_part(const void *p, int64_t i, int is_value, int64_t count) {
    return is_value ? vf_set(*(const float *)p) : vf_load_part((const float *)p + i, count);
}

/* --- one operand --------------------------------------------------------------------------------------------------- */

#define UNARY_APPLY(name, expression)                                               \
    EB_INLINE vf of_##name(vf a) { return expression; }                             \
    static void apply_##name(const run_of *r) {                                     \
        const void *x = r->input[0]; /* a store might change what `r` points to */  \
        const int is_value = r->is_value[0];                                        \
        const int64_t count = r->count;                                             \
        float *y = r->y;                                                            \
        int64_t i = 0;                                                              \
        for (; i + EB_VL <= count; i += EB_VL) {                                    \
            vf a = load_full(x, i, is_value);                                       \
            vf_store(y + i, of_##name(a));                                          \
        }                                                                           \
        if (i < count) {                                                            \
            vf a = load_part(x, i, is_value, count - i);                            \
            vf_store_part(y + i, of_##name(a), count - i);                          \
        }                                                                           \
    }
#define UNARY(op, expression)     \
    UNARY_APPLY(op, expression)   \
    POINTWISE_RUN(op, apply_##op) \
    const eb_kernel EB_SYMBOL(op, vector) = {plan, run_##op};

UNARY(neg, -a)
UNARY(abs, vf_abs(a))
UNARY(sqrt, vf_sqrt(a))
UNARY(rsqrt, 1.0f / vf_sqrt(a))
UNARY(reciprocal, 1.0f / a)
UNARY(exp, vf_exp(a))
UNARY(tanh, vf_tanh(a))
UNARY(sigmoid, vf_sigmoid(a))
UNARY(erf, vf_erf(a))
UNARY(relu, vf_relu(a))
UNARY(silu, vf_silu(a))
UNARY(sign, vf_sign(a))
UNARY(expm1, vf_expm1(a))
UNARY(log, vf_log(a))
UNARY(log1p, vf_log1p(a))
UNARY(sin, vf_sin(a))
UNARY(cos, vf_cos(a))
UNARY(exp2, vf_exp2(a))
UNARY(log2, vf_log2(a))
UNARY(tan, vf_tan(a))
UNARY(atan, vf_atan(a))
UNARY(sinh, vf_sinh(a))
UNARY(cosh, vf_cosh(a))
UNARY(floor, vf_floor(a))
UNARY(ceil, vf_ceil(a))
UNARY(round, vf_round(a))
UNARY(trunc, vf_trunc(a))

UNARY_APPLY(gelu_erf, vf_gelu(a))
UNARY_APPLY(gelu_tanh, vf_gelu_tanh(a))
POINTWISE_RUN(gelu, n->ints[EB_INT_GELU_APPROXIMATE] == EB_GELU_APPROXIMATE_TANH ? apply_gelu_tanh : apply_gelu_erf)
const eb_kernel EB_SYMBOL(gelu, vector) = {plan, run_gelu};

/* --- two operands -------------------------------------------------------------------------------------------------- */

#define BINARY_APPLY(op, expression)                                                                     \
    EB_INLINE vf of_##op(vf a, vf b) { return expression; }                                              \
    EB_INLINE void binary_##op(const run_of *r, const int a_is_value, const int b_is_value) {            \
        const void *x0 = r->input[0], *x1 = r->input[1];                                                 \
        const int64_t count = r->count;                                                                  \
        float *y = r->y;                                                                                 \
        int64_t i = 0;                                                                                   \
        for (; i + EB_VL <= count; i += EB_VL) {                                                         \
            vf a = load_full(x0, i, a_is_value), b = load_full(x1, i, b_is_value);                       \
            vf_store(y + i, of_##op(a, b));                                                              \
        }                                                                                                \
        if (i < count) {                                                                                 \
            vf a = load_part(x0, i, a_is_value, count - i), b = load_part(x1, i, b_is_value, count - i); \
            vf_store_part(y + i, of_##op(a, b), count - i);                                              \
        }                                                                                                \
    }                                                                                                    \
    static void apply_##op(const run_of *r) {                                                            \
        if (!r->is_value[0] && !r->is_value[1])                                                          \
            binary_##op(r, 0, 0);                                                                        \
        else if (r->is_value[1])                                                                         \
            binary_##op(r, r->is_value[0], 1);                                                           \
        else                                                                                             \
            binary_##op(r, 1, 0);                                                                        \
    }
#define BINARY(op, expression)    \
    BINARY_APPLY(op, expression)  \
    POINTWISE_RUN(op, apply_##op) \
    const eb_kernel EB_SYMBOL(op, vector) = {plan, run_##op};

BINARY(add, a + b)
BINARY(sub, a - b)
BINARY(mul, a *b)
BINARY(div, a / b)
BINARY(maximum, vf_maximum(a, b))
BINARY(minimum, vf_minimum(a, b))
BINARY(atan2, vf_atan2(a, b))

/* What is left of a for whole quotients, of half of the lanes: exact for quotients below 2^29, whose product with a float has
 * 53 bits. */
EB_INLINE vd vd_rest(vd a, vd b) {
    const vd magic = vd_set(0x1.8p52);
    vd rest = a - ((a / b + magic) - magic) * b;
    vd whole = vd_select(b < 0, -b, b);
    return vd_select(a < 0, vd_select(rest > 0, rest - whole, rest), vd_select(rest < 0, rest + whole, rest));
}
/* Larger quotients, infinities and NaN lane by lane. */
EB_INLINE vf vf_fmod(vf a, vf b) {
    vd a0, a1, b0, b1;
    vf_widen(a, &a0, &a1);
    vf_widen(b, &b0, &b1);
    vf rest = vf_signed(vf_narrow(vd_rest(a0, b0), vd_rest(a1, b1)), a);
    const vi far = ~(vf_abs(a / b) < 0x1p28f) | ~(vf_abs(b) < INFINITY);
    if (__builtin_expect(vi_any(far), 0))
        for (int i = 0; i < EB_VL; i++)
            if (far[i]) rest[i] = fmodf(a[i], b[i]);
    return rest;
}
EB_INLINE vf vf_remainder(vf a, vf b) {
    vf rest = vf_fmod(a, b);
    return vf_select((rest != 0.0f) & ((rest < 0.0f) != (b < 0.0f)), rest + b, rest);
}
BINARY(fmod, vf_fmod(a, b))
BINARY(remainder, vf_remainder(a, b))
#define of_maximum_any of_maximum
#define of_minimum_any of_minimum

/* The powers that models write most are products, as torch computes them too. */
BINARY_APPLY(pow_any, vf_pow(a, b))
UNARY_APPLY(square, a *a)
UNARY_APPLY(cube, a *a *a)
static void apply_pow(const run_of *r) {
    float exponent = *(const float *)r->input[1];
    (r->is_value[1] && exponent == 2 ? apply_square : r->is_value[1] && exponent == 3 ? apply_cube : apply_pow_any)(r);
}
POINTWISE_RUN(pow, apply_pow)
const eb_kernel EB_SYMBOL(pow, vector) = {plan, run_pow};

/* --- many ops in one pass ------------------------------------------------------------------------------------------ */

#include "program.h"
