/* The packing `panels`: implements packings.h. */
#include "packings.h"

enum { COLUMNS, DEPTH, GROUPS };

/* Columns of a group. */
static int64_t count_columns(const eb_tensor *w, const int64_t *numbers) {
    return w->shape[numbers[COLUMNS]] / eb_max(1, numbers[GROUPS]);
}

static int64_t count_pieces(const eb_tensor *w, const int64_t *numbers) {
    return eb_max(1, numbers[GROUPS]) * eb_ceil_div(count_columns(w, numbers), EB_NR);
}

/* The first column of a piece; *columns: how many it has. */
static int64_t piece_at(const eb_tensor *w, const int64_t *numbers, int64_t piece, int64_t *columns) {
    const int64_t each = count_columns(w, numbers), pieces = eb_max(1, eb_ceil_div(each, EB_NR));
    *columns = eb_min(EB_NR, each - piece % pieces * EB_NR);
    return piece / pieces * each + piece % pieces * EB_NR;
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
    const int64_t K = w->shape[numbers[DEPTH]], taps = count_taps(w, numbers);
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]];
    for (int64_t piece = begin; piece < end; piece++) {
        int64_t columns;
        const int64_t n = piece_at(w, numbers, piece, &columns);
        for (int64_t tap = 0; tap < taps; tap++)
            pack_panel((const eb_float_unaligned *)source + n * n_step + tap_at(w, numbers, tap), k_step, n_step, K, columns,
                       (float *)destination + (piece * taps + tap) * K * EB_NR);
    }
}

static void unpack(const eb_tensor *w, const int64_t *numbers, const void *packed, void *destination) {
    const int64_t K = w->shape[numbers[DEPTH]], taps = count_taps(w, numbers);
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]];
    for (int64_t piece = 0; piece < count_pieces(w, numbers); piece++) {
        int64_t columns;
        const int64_t n = piece_at(w, numbers, piece, &columns);
        for (int64_t tap = 0; tap < taps; tap++)
            unpack_panel((const float *)packed + (piece * taps + tap) * K * EB_NR, k_step, n_step, K, columns,
                         (float *)destination + n * n_step + tap_at(w, numbers, tap));
    }
}

const eb_packing panels_packing = {EB_PACKING_NAME("panels"), bytes_of, count_pieces, pack, unpack};
