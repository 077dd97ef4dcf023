/* The packing `panels`: implements packings.h. */
#include "packings.h"

enum { COLUMNS, DEPTH };

static int64_t count_pieces(const eb_tensor *w, const int64_t *numbers) {
    return eb_ceil_div(w->shape[numbers[COLUMNS]], EB_NR);
}

static int64_t count_taps(const eb_tensor *w, const int64_t *numbers) {
    int64_t taps = 1;
    for (int a = 0; a < w->rank; a++) taps *= a == numbers[COLUMNS] || a == numbers[DEPTH] ? 1 : w->shape[a];
    return taps;
}

static int64_t bytes_of(const eb_tensor *w, const int64_t *numbers) {
    return EB_MULTIPLY(count_pieces(w, numbers), count_taps(w, numbers), w->shape[numbers[DEPTH]], EB_NR, 4);
}

/* Offset of tap `tap` from the first element, in elements. */
static int64_t tap_at(const eb_tensor *w, const int64_t *numbers, int64_t tap) {
    int64_t at = 0;
    for (int a = w->rank - 1; a >= 0; a--) {
        if (a == numbers[COLUMNS] || a == numbers[DEPTH]) continue;
        at += tap % w->shape[a] * w->stride[a];
        tap /= w->shape[a];
    }
    return at;
}

static void pack(const eb_tensor *w, const int64_t *numbers, const void *source, void *destination, int64_t begin,
                 int64_t end) {
    const int64_t N = w->shape[numbers[COLUMNS]], K = w->shape[numbers[DEPTH]], taps = count_taps(w, numbers);
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]];
    for (int64_t piece = begin; piece < end; piece++)
        for (int64_t tap = 0, n = piece * EB_NR; tap < taps; tap++)
            pack_panel((const eb_float_unaligned *)source + n * n_step + tap_at(w, numbers, tap), k_step, n_step, K,
                       eb_min(EB_NR, N - n), (float *)destination + (piece * taps + tap) * K * EB_NR);
}

static void unpack(const eb_tensor *w, const int64_t *numbers, const void *packed, void *destination) {
    const int64_t N = w->shape[numbers[COLUMNS]], K = w->shape[numbers[DEPTH]], taps = count_taps(w, numbers);
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]];
    for (int64_t n = 0; n < N; n += EB_NR)
        for (int64_t tap = 0; tap < taps; tap++)
            unpack_panel((const float *)packed + (n / EB_NR * taps + tap) * K * EB_NR, k_step, n_step, K, eb_min(EB_NR, N - n),
                         (float *)destination + n * n_step + tap_at(w, numbers, tap));
}

const eb_packing panels_packing = {EB_PACKING_NAME("panels"), bytes_of, count_pieces, pack, unpack};
