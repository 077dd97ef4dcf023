/* The scan of a selective state-space model: edges of channels, states and positions, and who may be absent. */
#include "suite.h"

/* `whole`: with skip, gate and bias. Rates lie in [-1, 0] where all decay, and in [-1, 1) else. */
void make_selective_scan(test_case *c, int64_t N, int64_t S, int64_t D, int64_t states, int softplus, int whole, int decaying,
                         layout how) {
    case_begin(c, "selective_scan", 4e-6, "%ld x %ld x %ld, %ld states, softplus=%d whole=%d decaying=%d layout=%d", (long)N,
               (long)S, (long)D, (long)states, softplus, whole, decaying, (int)how);
    case_input(c, EB_F32, how, 1, SHAPE(N, S, D));
    case_input(c, EB_F32, how, 1, SHAPE(N, S, D));
    case_input(c, EB_F32, how, 1, SHAPE(D, states));
    for (int64_t i = 0; i < c->bytes[2] / 4; i++) {
        float *rate = (float *)c->data[2] + i;
        if (decaying && *rate > 0) *rate = -*rate;
    }
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

void test_selective_scan(void) {
    static const int64_t channels[] = {1, 3, 4, 7, 8, 15, 16, 17, 31, 32, 40, 67}, states[] = {1, 2, 5, 16};
    test_case c;
    for (int i = 0; i < 12; i++)
        for (int kind = 0; kind < 4; kind++) {
            int softplus = kind > 0, decaying = kind > 1;
            make_selective_scan(&c, 1 + i % 2, 1 + i % 7, channels[i], states[kind], softplus, i % 2, decaying, (layout)(i % 2));
            case_check(&c);
            make_selective_scan(&c, 2, 3, channels[i], states[3 - kind], softplus, 1 - i % 2, decaying, (layout)(2 + i % 2));
            case_check(&c);
        }
    /* Several tiles of a sequence, and a sequence whose decays underflow or whose steps are over the threshold. */
    make_selective_scan(&c, 2, 300, 150, 16, 1, 1, 1, DENSE);
    c.tolerance = 4e-5; /* sixteen states of about 10 cancel */
    case_check(&c);
    make_selective_scan(&c, 1, 9, 33, 4, 1, 0, 1, DENSE);
    for (int64_t i = 0; i < c.bytes[1] / 4; i++) ((float *)c.data[1])[i] *= 200;
    c.tolerance = 4e-5; /* states of about 100 cancel */
    case_check(&c);
    for (int input = 0; input < 7; input += 6) { /* NaN and infinities in x, and in the gate */
        make_selective_scan(&c, 2, 5, 35, 4, 1, 1, 1, DENSE);
        case_specials(&c, input);
        case_check(&c);
        make_selective_scan(&c, 2, 5, 35, 4, 1, input != 0, 0, DENSE);
        case_specials(&c, input);
        case_check(&c);
    }
    for (int in_place = 0; in_place < 7; in_place++) {
        make_selective_scan(&c, 2, 6, 37, 5, 1, 1, 1, DENSE);
        c.in_place = in_place;
        if (in_place > 1) in_place = c.in_place = 6;
        case_check(&c);
    }
    static const int64_t empty[][4] = {{0, 3, 5, 2}, {2, 0, 5, 2}, {2, 3, 0, 2}, {2, 3, 5, 0}};
    for (int i = 0; i < 4; i++) {
        make_selective_scan(&c, empty[i][0], empty[i][1], empty[i][2], empty[i][3], 1, 1, 1, DENSE);
        case_check(&c);
    }
}
