/* linear with a constant weight of 8 bits and a scale for each column of the result.
 *
 * The weight is packed into panels of bytes (packings.h), a quarter of the bytes of floats. Few rows are bound by reading them: a
 * micro-tile widens bytes in registers, and multiplies its sums by the scales. For more rows a panel is widened once into
 * scratch, where its elements get their scale, and is multiplied like a panel of floats. Both read the same packed copy.
 */
#include "linear.h"

#include "epilogue.h"
#include "packings.h"

enum { FEW_ROWS = 4 };

static eb_status plan(eb_node *node) {
    const eb_tensor *w = eb_input(node, EB_IN_LINEAR_WEIGHT);
    if (w->axis != (node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] ? 0 : 1)) return EB_NOT_APPLICABLE;
    eb_status status = plan_linear(node);
    if (status != EB_OK) return status;
    const product_rows *rows = &linear_tiling_of(node)->rows;
    node->scratch_bytes = w->is_packed && rows->M <= FEW_ROWS ? 0 : rows->K * EB_NR * 4;
    return EB_OK;
}

static const eb_packing *choose_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const int transposed = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] != 0;
    return input == EB_IN_LINEAR_WEIGHT ? choose_packing_of(&byte_panels_packing, !transposed, transposed, numbers) : NULL;
}

/* R rows, U sets of sums: few rows would wait for their previous addition. */
EB_INLINE void multiply_few(const eb_micro *t, const float *scales, const int R, const int U) {
    vf sum[4][FEW_ROWS][2];
    const float *x = t->x;
    const int8_t *b = t->b;
    int64_t k = t->groups;
    fetch_y(t, R, 2);
    EB_UNROLL
    for (int u = 0; u < U; u++)
        EB_UNROLL
        for (int r = 0; r < R; r++) sum[u][r][0] = sum[u][r][1] = vf_set(0);
    for (; k >= U; k -= U, b += U * EB_NR) {
        EB_UNROLL
        for (int u = 0; u < U; u++, x += t->x_k) {
            const vf low = vf_load_bytes(b + u * EB_NR), high = vf_load_bytes(b + u * EB_NR + EB_VL);
            EB_UNROLL
            for (int r = 0; r < R; r++) {
                const vf value = vf_set(x[r * t->x_row]);
                sum[u][r][0] += value * low;
                sum[u][r][1] += value * high;
            }
        }
    }
    for (; k > 0; k--, b += EB_NR, x += t->x_k) {
        const vf low = vf_load_bytes(b), high = vf_load_bytes(b + EB_VL);
        EB_UNROLL
        for (int r = 0; r < R; r++) {
            const vf value = vf_set(x[r * t->x_row]);
            sum[0][r][0] += value * low;
            sum[0][r][1] += value * high;
        }
    }
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < 2; v++) {
            EB_UNROLL
            for (int u = 1; u < U; u++) sum[0][r][v] += sum[u][r][v];
            sum[0][r][v] *= vf_load(scales + v * EB_VL);
        }
    finish_sums(t, sum[0], R, 2);
}

static void multiply_1(const eb_micro *t, const float *scales) { multiply_few(t, scales, 1, 4); }
static void multiply_2(const eb_micro *t, const float *scales) { multiply_few(t, scales, 2, 2); }
static void multiply_3(const eb_micro *t, const float *scales) { multiply_few(t, scales, 3, 2); }
static void multiply_4(const eb_micro *t, const float *scales) { multiply_few(t, scales, 4, 1); }
static void (*const of_rows[FEW_ROWS])(const eb_micro *, const float *) = {multiply_1, multiply_2, multiply_3, multiply_4};

/* At the right edge through small buffers, so that nothing beyond the columns of y is touched. */
static void multiply_bytes(const eb_product *p, const int8_t *panel, const float *scales) {
    float sums[FEW_ROWS * EB_NR] = {0}, bias[EB_NR] = {0};
    const int is_edge = p->columns < EB_NR;
    eb_micro t = {.groups = p->K,
                  .x = p->x,
                  .x_row = p->x_row,
                  .x_k = p->x_k,
                  .b = panel,
                  .y = is_edge ? sums : p->y,
                  .ldy = is_edge ? EB_NR : p->ldy,
                  .alpha = p->alpha,
                  .bias = p->bias,
                  .residual = p->residual,
                  .ldr = p->ldr,
                  .clamp = p->clamp};
    if (is_edge && p->bias) {
        memcpy(bias, p->bias, (size_t)p->columns * 4);
        t.bias = bias;
    }
    if (is_edge && p->residual) {
        for (int64_t r = 0; r < p->M; r++) memcpy(sums + r * EB_NR, p->residual + r * p->ldr, (size_t)p->columns * 4);
        t.residual = sums;
        t.ldr = EB_NR;
    }
    of_rows[p->M - 1](&t, scales);
    for (int64_t r = 0; is_edge && r < p->M; r++) memcpy(p->y + r * p->ldy, sums + r * EB_NR, (size_t)p->columns * 4);
    if (p->activation) p->activation(p->y, p->M, p->columns, p->ldy);
}

static void widen_panel(const int8_t *panel, int64_t K, const float *scales, float *wide) {
    const vf low = vf_load(scales), high = vf_load(scales + EB_VL);
    for (int64_t k = 0; k < K; k++, panel += EB_NR, wide += EB_NR) {
        vf_store(wide, vf_load_bytes(panel) * low);
        vf_store(wide + EB_VL, vf_load_bytes(panel + EB_VL) * high);
    }
}

/* The same of columns that are not packed. */
static void widen_columns(const int8_t *source, int64_t k_step, int64_t n_step, int64_t K, int64_t columns,
                          const float *scales, float *wide) {
    for (int64_t k = 0; k < K; k++)
        for (int64_t n = 0; n < EB_NR; n++)
            wide[k * EB_NR + n] = n < columns ? (float)source[k * k_step + n * n_step] * scales[n] : 0;
}

EB_INLINE void multiply(const eb_node *node, void *const *bases, void *scratch, int64_t n, int64_t next, eb_product *product) {
    (void)next;
    const eb_tensor *w = eb_input(node, EB_IN_LINEAR_WEIGHT), *scale = eb_input(node, w->parts);
    const int8_t *bytes = eb_data(w, bases);
    const float *first = (const float *)eb_data(scale, bases) + n * scale->stride[0];
    float scales[EB_NR] = {0};
    for (int64_t i = 0; i < product->columns; i++) scales[i] = first[i * scale->stride[0]];
    if (w->is_packed && product->M <= FEW_ROWS) {
        multiply_bytes(product, bytes + n * product->K, scales);
        return;
    }
    if (w->is_packed) {
        widen_panel(bytes + n * product->K, product->K, scales, scratch);
    } else {
        const int transposed = node->ints[EB_INT_LINEAR_TRANSPOSE_WEIGHT] != 0;
        const int64_t n_step = w->stride[!transposed], k_step = w->stride[transposed];
        widen_columns(bytes + n * n_step, k_step, n_step, product->K, product->columns, scales, scratch);
    }
    product->b = scratch;
    product->next = scratch; /* the next panel is widened first, so there is nothing to fetch */
    multiply_panel(product);
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_rows rows = float_rows(node, &linear_tiling_of(node)->rows, bases);
    return run_linear(node, bases, &rows, begin, end, scratch, multiply);
}
const eb_kernel EB_PASTE(f32_qc8w_linear, __, EB_ISA, _, packed, ) = {plan, run, choose_packing};
