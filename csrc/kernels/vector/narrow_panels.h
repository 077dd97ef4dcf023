/* Packings of weights whose elements are narrower than floats. A file that includes this header first defines
 *
 *   narrow         type of an element
 *   NARROW_GROUP   enumerator: the elements of one column that lie side by side in a panel
 *   NARROW_FLIP    enumerator: the bits of an element that are inverted in a panel
 *
 * Element (k, n) of a panel is at [k / NARROW_GROUP][n][k % NARROW_GROUP], the depth padded with zeros to whole groups. A panel
 * of `panels` has EB_NR columns. A panel of `gates` has one vector of columns of the first half of the matrix, and beside it
 * the same columns of the second half.
 *
 * Each index of the axes that are neither columns nor depth is a tap, as in packings.h, and a panel has the rows of tap after tap.
 * If the number JOINED is not 0, the last axis is no tap: its indices lie one behind the other in the depth of a tap. */
#ifndef EB_NARROW_PANELS_H
#define EB_NARROW_PANELS_H

#include "packings.h"

enum { COLUMNS, DEPTH, JOINED }; /* numbers of a layout: the axis of the columns, and of k; whether k includes the last axis */
enum { BLOCK = 64 };             /* elements of a column that are moved together: a cache line or two */

static int64_t narrow_depth(int64_t K) { return eb_ceil_div(K, NARROW_GROUP) * NARROW_GROUP; }

static int64_t count_joined(const eb_tensor *w, const int64_t *numbers) { return numbers[JOINED] ? w->shape[w->rank - 1] : 1; }

static int is_tap_axis(const eb_tensor *w, const int64_t *numbers, int axis) {
    return axis != numbers[COLUMNS] && axis != numbers[DEPTH] && !(numbers[JOINED] && axis == w->rank - 1);
}

static int64_t count_taps(const eb_tensor *w, const int64_t *numbers) {
    int64_t taps = 1;
    for (int a = 0; a < w->rank; a++) taps *= is_tap_axis(w, numbers, a) ? w->shape[a] : 1;
    return taps;
}

/* Offset of a tap from the first element, in elements. */
static int64_t tap_at(const eb_tensor *w, const int64_t *numbers, int64_t tap) {
    int64_t at = 0;
    for (int a = w->rank - 1; a >= 0; a--) {
        if (!is_tap_axis(w, numbers, a)) continue;
        at += tap % w->shape[a] * w->stride[a];
        tap /= w->shape[a];
    }
    return at;
}

/* Elements of a panel that belong to one tap. */
static int64_t tap_size(const eb_tensor *w, const int64_t *numbers) {
    return eb_multiply(narrow_depth(w->shape[numbers[DEPTH]] * count_joined(w, numbers)), EB_NR);
}

/* Columns of a matrix, from or to some columns of a panel, there from row `k_first` on. */
static void move_columns(narrow *matrix, int64_t k_step, int64_t n_step, int64_t K, int64_t columns, narrow *panel, int64_t k_first,
                         const int packs) {
    for (int64_t first = 0; first < K; first += BLOCK)
        for (int64_t n = 0; n < columns; n++)
            for (int64_t k = first; k < eb_min(K, first + BLOCK); k++) {
                const int64_t row = k_first + k;
                narrow *inside = panel + row / NARROW_GROUP * EB_NR * NARROW_GROUP + n * NARROW_GROUP + row % NARROW_GROUP;
                narrow *outside = matrix + k * k_step + n * n_step;
                if (packs)
                    *inside = (narrow)(*outside ^ NARROW_FLIP);
                else
                    *outside = (narrow)(*inside ^ NARROW_FLIP);
            }
}

/* One tap of columns from `n` on, from or to a weight of N columns, or of two halves of N columns. */
static void move_tap(const eb_tensor *w, const int64_t *numbers, narrow *tap, narrow *panel, int64_t n, const int halves,
                     const int packs) {
    const int64_t N = w->shape[numbers[COLUMNS]] / halves, K = w->shape[numbers[DEPTH]], width = EB_NR / halves;
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]], columns = eb_min(width, N - n);
    for (int half = 0; half < halves; half++)
        for (int64_t i = 0; i < count_joined(w, numbers); i++)
            move_columns(tap + (half * N + n) * n_step + (i ? i * w->stride[w->rank - 1] : 0), k_step, n_step, K, columns,
                         panel + half * width * NARROW_GROUP, i * K, packs);
}

/* Pieces [begin, end), from or to a weight. */
static void move_pieces(const eb_tensor *w, const int64_t *numbers, void *matrix, void *packed, int64_t begin, int64_t end,
                        const int halves, const int packs) {
    const int64_t N = w->shape[numbers[COLUMNS]] / halves, width = EB_NR / halves, taps = count_taps(w, numbers);
    const int64_t size = tap_size(w, numbers), depth = w->shape[numbers[DEPTH]] * count_joined(w, numbers);
    for (int64_t piece = begin; piece < end; piece++)
        for (int64_t tap = 0; tap < taps; tap++) {
            narrow *panel = (narrow *)packed + (piece * taps + tap) * size;
            const int has_padding = N - piece * width < width || depth % NARROW_GROUP;
            if (packs && depth && has_padding) memset(panel, 0, (size_t)size * sizeof(narrow));
            move_tap(w, numbers, (narrow *)matrix + tap_at(w, numbers, tap), panel, piece * width, halves, packs);
        }
}

/* The functions of a packing of `halves` halves. */
#define EB_NARROW_PACKING(name, halves)                                                                                    \
    static int64_t count_##name(const eb_tensor *w, const int64_t *numbers) {                                              \
        return eb_ceil_div(w->shape[numbers[COLUMNS]] / halves, EB_NR / halves);                                           \
    }                                                                                                                      \
    static int64_t bytes_of_##name(const eb_tensor *w, const int64_t *numbers) {                                           \
        return EB_MULTIPLY(count_##name(w, numbers), count_taps(w, numbers), tap_size(w, numbers), (int64_t)sizeof(narrow));  \
    }                                                                                                                      \
    static void pack_##name(const eb_tensor *w, const int64_t *numbers, const void *source, void *destination,             \
                            int64_t begin, int64_t end) {                                                                  \
        move_pieces(w, numbers, (void *)(uintptr_t)source, destination, begin, end, halves, 1);                            \
    }                                                                                                                      \
    static void unpack_##name(const eb_tensor *w, const int64_t *numbers, const void *packed, void *destination) {         \
        move_pieces(w, numbers, destination, (void *)(uintptr_t)packed, 0, count_##name(w, numbers), halves, 0);           \
    }
EB_NARROW_PACKING(panels, 1)
EB_NARROW_PACKING(gates, 2)

#endif
