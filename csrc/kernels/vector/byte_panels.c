/* The packing `byte_panels`: implements packings.h. */
#include "packings.h"

enum { COLUMNS, DEPTH };
enum { BLOCK = 64 }; /* rows of a panel that are written together: 2 KiB, from one cache line of each column */

static int64_t count_pieces(const eb_tensor *w, const int64_t *numbers) {
    return eb_ceil_div(w->shape[numbers[COLUMNS]], EB_NR);
}

static int64_t bytes_of(const eb_tensor *w, const int64_t *numbers) {
    return EB_PRODUCT(count_pieces(w, numbers), w->shape[numbers[DEPTH]], EB_NR);
}

static void pack(const eb_tensor *w, const int64_t *numbers, const void *source, void *destination, int64_t begin,
                 int64_t end) {
    const int64_t N = w->shape[numbers[COLUMNS]], K = w->shape[numbers[DEPTH]];
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]];
    for (int64_t piece = begin; piece < end; piece++) {
        const int64_t columns = eb_min(EB_NR, N - piece * EB_NR);
        const int8_t *from = (const int8_t *)source + piece * EB_NR * n_step;
        int8_t *panel = (int8_t *)destination + piece * K * EB_NR;
        if (K && columns < EB_NR) memset(panel, 0, (size_t)(K * EB_NR));
        for (int64_t first = 0; first < K; first += BLOCK)
            for (int64_t n = 0; n < columns; n++)
                for (int64_t k = first; k < eb_min(K, first + BLOCK); k++) panel[k * EB_NR + n] = from[k * k_step + n * n_step];
    }
}

static void unpack(const eb_tensor *w, const int64_t *numbers, const void *packed, void *destination) {
    const int64_t N = w->shape[numbers[COLUMNS]], K = w->shape[numbers[DEPTH]];
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]];
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++)
            ((int8_t *)destination)[k * k_step + n * n_step] = ((const int8_t *)packed)[n / EB_NR * K * EB_NR + k * EB_NR + n % EB_NR];
}

const eb_packing byte_panels_packing = {EB_PACKING_NAME("byte_panels"), bytes_of, count_pieces, pack, unpack};
