/* Reference of selective_scan, in double: one channel of one sequence after the other. */
#include "../ops.h"
#include "element.h"

enum {
    X = EB_IN_SELECTIVE_SCAN_X,
    DELTA = EB_IN_SELECTIVE_SCAN_DELTA,
    A = EB_IN_SELECTIVE_SCAN_A,
    B = EB_IN_SELECTIVE_SCAN_B,
    C = EB_IN_SELECTIVE_SCAN_C,
    SKIP = EB_IN_SELECTIVE_SCAN_SKIP,
    GATE = EB_IN_SELECTIVE_SCAN_GATE,
    BIAS = EB_IN_SELECTIVE_SCAN_BIAS
};

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, X);
    if (!eb_is_real(x->dtype)) return EB_NOT_APPLICABLE;
    int64_t states = eb_input(node, A)->shape[1], sequence = x->shape[1];
    node->tiles = sequence ? eb_tile_count(x->shape[0] * x->shape[2], sequence * (states + 1)) : 0;
    node->scratch_bytes = states * 8;
    return EB_OK;
}

static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); } /* from 20 on the identity, as in torch */

static double at(const eb_tensor *t, void *const *bases, int64_t i, int64_t j, int64_t k) {
    const int64_t index[] = {i, j, k};
    return eb_load_real(t->dtype, eb_data(t, bases), eb_offset_at(t, index));
}

static void scan(const eb_node *node, void *const *bases, int64_t n, int64_t d, double *h) {
    const eb_tensor *x = eb_input(node, X), *y = eb_output(node);
    const int64_t states = eb_input(node, A)->shape[1];
    const double skip = eb_is_present(node, SKIP) ? at(eb_input(node, SKIP), bases, d, 0, 0) : 0;
    const double bias = eb_is_present(node, BIAS) ? at(eb_input(node, BIAS), bases, d, 0, 0) : 0;
    for (int64_t i = 0; i < states; i++) h[i] = 0;
    for (int64_t s = 0; s < x->shape[1]; s++) {
        double u = at(x, bases, n, s, d), step = at(eb_input(node, DELTA), bases, n, s, d) + bias, sum = 0;
        if (node->ints[EB_INT_SELECTIVE_SCAN_SOFTPLUS]) step = softplus(step);
        for (int64_t i = 0; i < states; i++) {
            h[i] = exp(step * at(eb_input(node, A), bases, d, i, 0)) * h[i] + step * u * at(eb_input(node, B), bases, n, s, i);
            sum += h[i] * at(eb_input(node, C), bases, n, s, i);
        }
        if (eb_is_present(node, SKIP)) sum += skip * u;
        if (eb_is_present(node, GATE)) {
            double gate = at(eb_input(node, GATE), bases, n, s, d);
            sum *= gate / (1 + exp(-gate));
        }
        const int64_t index[] = {n, s, d};
        eb_store_real(y->dtype, eb_data(y, bases), eb_offset_at(y, index), sum);
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *x = eb_input(node, X);
    int64_t D = x->shape[2], lines = x->shape[0] * D;
    for (int64_t line = eb_piece(lines, node->tiles, begin); line < eb_piece(lines, node->tiles, end); line++)
        scan(node, bases, line / D, line % D, scratch);
    return EB_OK;
}
const eb_kernel any_selective_scan__generic_reference = {plan, run};
