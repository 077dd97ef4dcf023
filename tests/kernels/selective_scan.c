/* The scan of a selective state-space model: edges of channels, states and positions, and who may be absent. */
#include "suite.h"

static void negate_rates(test_case *c, int64_t a, int64_t b) {
    (void)a, (void)b;
    for (int64_t i = 0; i < c->bytes[2] / 4; i++) {
        float *rate = (float *)c->data[2] + i;
        if (*rate > 0) *rate = -*rate;
    }
}

static void multiply_steps(test_case *c, int64_t by, int64_t b) {
    (void)b;
    for (int64_t i = 0; i < c->bytes[1] / 4; i++) ((float *)c->data[1])[i] *= (float)by;
}

/* `whole`: with skip, gate and bias. Rates lie in [-1, 0] where all decay, and in [-1, 1) else. */
static void make_selective_scan(test_case *c, int64_t N, int64_t S, int64_t D, int64_t states, int softplus, int whole, int decaying,
                         layout how) {
    case_begin(c, "selective_scan", 4e-6, "%ld x %ld x %ld, %ld states, softplus=%d whole=%d decaying=%d layout=%d", (long)N,
               (long)S, (long)D, (long)states, softplus, whole, decaying, (int)how);
    case_input(c, EB_F32, how, 1, SHAPE(N, S, D));
    case_input(c, EB_F32, how, 1, SHAPE(N, S, D));
    case_input(c, EB_F32, how, 1, SHAPE(D, states));
    if (decaying) case_edit(c, negate_rates, 0, 0);
    for (int i = 0; i < 2; i++) case_input(c, EB_F32, how, 1, SHAPE(N, S, states));
    if (whole) {
        case_input(c, EB_F32, DENSE, 1, SHAPE(D));
        case_input(c, EB_F32, how, 4, SHAPE(N, S, D));
        case_input(c, EB_F32, DENSE, 4, SHAPE(D));
    } else {
        for (int i = 0; i < 3; i++) case_absent(c);
    }
    case_output(c, EB_F32, DENSE, SHAPE(N, S, D));
    c->node.n_ints = 1;
    c->ints[EB_INT_SELECTIVE_SCAN_SOFTPLUS] = softplus;
}

void cases_selective_scan(case_visitor *v) {
    static const int64_t channels[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 40, 67}, states[] = {1, 2, 5, 16};
    test_case c;
    for (int i = 0; i < 12; i++)
        for (int kind = 0; kind < 4; kind++) {
            int softplus = kind > 0, decaying = kind > 1;
            make_selective_scan(&c, 1 + i % 2, 1 + i % 7, channels[i], states[kind], softplus, i % 2, decaying, (layout)(i % 2));
            visit_case(v, &c);
            make_selective_scan(&c, 2, 3, channels[i], states[3 - kind], softplus, 1 - i % 2, decaying, (layout)(2 + i % 2));
            visit_case(v, &c);
        }
    /* Several tiles of a sequence, and a sequence whose decays underflow or whose steps are over the threshold. */
    make_selective_scan(&c, 2, 300, 150, 16, 1, 1, 1, DENSE);
    c.tolerance = 4e-5; /* sixteen states of about 10 cancel */
    visit_case(v, &c);
    make_selective_scan(&c, 1, 9, 33, 4, 1, 0, 1, DENSE);
    case_edit(&c, multiply_steps, 200, 0);
    case_note(&c, "large steps");
    c.tolerance = 4e-5; /* states of about 100 cancel */
    visit_case(v, &c);
    for (int input = 0; input < 7; input += 6) { /* NaN and infinities in x, and in the gate */
        make_selective_scan(&c, 2, 5, 35, 4, 1, 1, 1, DENSE);
        case_specials(&c, input);
        visit_case(v, &c);
        make_selective_scan(&c, 2, 5, 35, 4, 1, input != 0, 0, DENSE);
        case_specials(&c, input);
        visit_case(v, &c);
    }
    for (int in_place = 0; in_place < 7; in_place++) {
        make_selective_scan(&c, 2, 6, 37, 5, 1, 1, 1, DENSE);
        c.in_place = in_place;
        if (in_place > 1) in_place = c.in_place = 6;
        visit_case(v, &c);
    }
    static const int64_t empty[][4] = {{0, 3, 5, 2}, {2, 0, 5, 2}, {2, 3, 0, 2}, {2, 3, 5, 0}};
    for (int i = 0; i < 4; i++) {
        make_selective_scan(&c, empty[i][0], empty[i][1], empty[i][2], empty[i][3], 1, 1, 1, DENSE);
        visit_case(v, &c);
    }
    for (int i = 0; i < 8; i++) {
        const int64_t a = i & 1 ? 3 : 0, b = i & 2 ? 3 : 0, d = i & 4 ? 3 : 0;
        make_selective_scan(&c, a, b, 3, d, 1, 1, 1, DENSE);
        visit_case(v, &c);
        make_selective_scan(&c, 1, b, a, d, 1, 1, 1, DENSE);
        visit_case(v, &c);
    }
    /* The scan of a layer of Mamba-130M, with all that goes around it; 7 operations a state, 16 of them. */
    for (int64_t length = 128; length >= 1; length -= 127) {
        make_selective_scan(&c, 1, length, 1536, 16, 1, 1, 1, DENSE);
        case_timed(&c, (7.0 * 16 + 11) * (double)(length * 1536), "%ld x 1536, 16 states", (long)length);
        visit_case(v, &c);
    }
}
