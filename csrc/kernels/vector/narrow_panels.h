/* Packings of matrices whose elements are narrower than floats. A file that includes this header first defines
 *
 *   narrow         type of an element
 *   NARROW_GROUP   enumerator: the elements of one column that lie side by side in a panel
 *   NARROW_FLIP    enumerator: the bits of an element that are inverted in a panel
 *
 * Element (k, n) of a panel is at [k / NARROW_GROUP][n][k % NARROW_GROUP], the depth padded with zeros to whole groups. A panel
 * of `panels` has EB_NR columns. A panel of `gates` has one vector of columns of the first half of the matrix, and beside it
 * the same columns of the second half. */
#ifndef EB_NARROW_PANELS_H
#define EB_NARROW_PANELS_H

#include "packings.h"

enum { COLUMNS, DEPTH };       /* numbers of a layout: the axis of the columns, and of k */
enum { BLOCK = 64 };           /* elements of a column that are moved together: a cache line or two */

static int64_t narrow_depth(int64_t K) { return eb_ceil_div(K, NARROW_GROUP) * NARROW_GROUP; }

/* Columns of a matrix, from or to some columns of a panel. */
static void move_columns(narrow *matrix, int64_t k_step, int64_t n_step, int64_t K, int64_t columns, narrow *panel, const int packs) {
    for (int64_t first = 0; first < K; first += BLOCK)
        for (int64_t n = 0; n < columns; n++)
            for (int64_t k = first; k < eb_min(K, first + BLOCK); k++) {
                narrow *inside = panel + k / NARROW_GROUP * EB_NR * NARROW_GROUP + n * NARROW_GROUP + k % NARROW_GROUP;
                narrow *outside = matrix + k * k_step + n * n_step;
                if (packs)
                    *inside = (narrow)(*outside ^ NARROW_FLIP);
                else
                    *outside = (narrow)(*inside ^ NARROW_FLIP);
            }
}

/* Pieces [begin, end), from or to a matrix of N columns, or of two halves of N columns. */
static void move_pieces(const eb_tensor *w, const int64_t *numbers, void *matrix, void *packed, int64_t begin, int64_t end,
                        const int halves, const int packs) {
    const int64_t N = w->shape[numbers[COLUMNS]] / halves, K = w->shape[numbers[DEPTH]], width = EB_NR / halves;
    const int64_t n_step = w->stride[numbers[COLUMNS]], k_step = w->stride[numbers[DEPTH]], panel_size = narrow_depth(K) * EB_NR;
    for (int64_t piece = begin; piece < end; piece++) {
        narrow *panel = (narrow *)packed + piece * panel_size;
        const int64_t n = piece * width, columns = eb_min(width, N - n);
        if (packs && K && (columns < width || K % NARROW_GROUP)) memset(panel, 0, (size_t)panel_size * sizeof(narrow));
        for (int half = 0; half < halves; half++)
            move_columns((narrow *)matrix + (half * N + n) * n_step, k_step, n_step, K, columns,
                         panel + half * width * NARROW_GROUP, packs);
    }
}

/* The functions of a packing of `halves` halves. */
#define EB_NARROW_PACKING(name, halves)                                                                                    \
    static int64_t count_##name(const eb_tensor *w, const int64_t *numbers) {                                              \
        return eb_ceil_div(w->shape[numbers[COLUMNS]] / halves, EB_NR / halves);                                           \
    }                                                                                                                      \
    static int64_t bytes_of_##name(const eb_tensor *w, const int64_t *numbers) {                                           \
        return EB_PRODUCT(count_##name(w, numbers), narrow_depth(w->shape[numbers[DEPTH]]), EB_NR, (int64_t)sizeof(narrow)); \
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
