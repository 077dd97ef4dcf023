/* Moving data of any dtype: copy, flip and concat, by the size of an element alone.
 *
 * A movement is a loop over planes of two axes: the last one of the result, and the one along which the source is
 * contiguous if the last is not. How a plane is moved:
 *   - both sides contiguous along the last axis: one run a row;
 *   - the source contiguous down the rows (a transpose): squares of one cache line a side, so that each line of the source
 *     is read once. Lines of the result at distances of a multiple of 4 KiB share a set of the cache and would evict each
 *     other while they are half written: they are put together in a buffer;
 *   - a transpose one of whose axes is shorter than a vector: the vectors along the other axis are turned in registers;
 *   - else line by line, along the longer axis if the last one is short. Lines that repeat, reverse or skip elements are
 *     loops with constant strides, which the compiler vectorises. */
#include <string.h>

#include "../../engine.h"
#include "../../iterate.h"
#include "../../ops.h"
#include "../../stream.h"

enum {
    TILE_BYTES = 1 << 16,
    CACHE_LINE = 64,
    VECTOR = 16,    /* bytes */
    SHORT = 8,      /* elements: a shorter run is not worth a call */
    LONG = 256,
    NEAR = 1 << 14, /* lines at distances of a multiple of NEAR / n bytes at most: n of them stay in the nearest cache */
};


/* --- a plane of two axes ------------------------------------------------------------------------------------------ */

typedef struct {
    int64_t rows, columns;
    int64_t x_row, x_column, y_row, y_column; /* strides in elements */
} plane;

/* How a plane is moved. */
typedef enum { BY_LINES, TURN, SPREAD, COLLECT } way;

static way choose_way(const plane *p, int64_t size) {
    const int64_t width = VECTOR / size;
    if (p->y_column != 1 || p->x_column == 0 || p->x_column == 1) return BY_LINES;
    if (p->x_row == 1 && width > 2) {
        if (p->rows <= p->x_column && p->x_column < width && p->columns > width) return SPREAD;
        if (p->columns == p->y_row && p->columns < width && p->rows >= width) return COLLECT;
    }
    return (p->x_row == 1 || p->x_row == -1) && eb_min(p->rows, p->columns) >= width ? TURN : BY_LINES;
}

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(type, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(type, a, b, ...) __builtin_shuffle(a, b, (vec_##type){__VA_ARGS__})
#endif
/* The first and the second halves of two vectors, element by element; the elements at even and at odd places. */
#define LOW_uint8_t(a, b) SHUFFLE(uint8_t, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH_uint8_t(a, b) SHUFFLE(uint8_t, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define EVEN_uint8_t(a, b) SHUFFLE(uint8_t, a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODD_uint8_t(a, b) SHUFFLE(uint8_t, a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define LOW_uint16_t(a, b) SHUFFLE(uint16_t, a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH_uint16_t(a, b) SHUFFLE(uint16_t, a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define EVEN_uint16_t(a, b) ((vec_uint16_t)LOW_uint64_t(part_uint16_t(a), part_uint16_t(b)))
#define ODD_uint16_t(a, b) ((vec_uint16_t)HIGH_uint64_t(part_uint16_t(a), part_uint16_t(b)))
#define LOW_uint32_t(a, b) SHUFFLE(uint32_t, a, b, 0, 4, 1, 5)
#define HIGH_uint32_t(a, b) SHUFFLE(uint32_t, a, b, 2, 6, 3, 7)
#define EVEN_uint32_t(a, b) SHUFFLE(uint32_t, a, b, 0, 2, 4, 6)
#define ODD_uint32_t(a, b) SHUFFLE(uint32_t, a, b, 1, 3, 5, 7)
#define LOW_uint64_t(a, b) SHUFFLE(uint64_t, a, b, 0, 2)
#define HIGH_uint64_t(a, b) SHUFFLE(uint64_t, a, b, 1, 3)
#define EVEN_uint64_t(a, b) LOW_uint64_t(a, b)
#define ODD_uint64_t(a, b) HIGH_uint64_t(a, b)
#define SWAP(type, a) ((vec_##type)SHUFFLE(uint64_t, (vec_uint64_t)(a), (vec_uint64_t)(a), 1, 0)) /* the halves */

typedef uint8_t vec_uint8_t __attribute__((vector_size(VECTOR)));
typedef uint16_t vec_uint16_t __attribute__((vector_size(VECTOR)));
typedef uint32_t vec_uint32_t __attribute__((vector_size(VECTOR)));
typedef uint64_t vec_uint64_t __attribute__((vector_size(VECTOR)));

/* The elements at even places, then those at odd places, in steps that are instructions: without SSSE3, GCC moves the
 * elements of another shuffle one by one. */
static inline vec_uint64_t part_uint16_t(vec_uint16_t v) {
    v = SHUFFLE(uint16_t, v, v, 0, 2, 1, 3, 4, 5, 6, 7);
    v = SHUFFLE(uint16_t, v, v, 0, 1, 2, 3, 4, 6, 5, 7);
    const vec_uint32_t words = (vec_uint32_t)v;
    return (vec_uint64_t)SHUFFLE(uint32_t, words, words, 0, 2, 1, 3);
}

/* A vector from its last element of `bits` to its first: by words of 64 and 32 bits, then by shifts inside of these, which
 * need no shuffle of bytes. */
static inline vec_uint64_t reverse_vector(vec_uint64_t v, int bits) {
    if (bits == 64) return SHUFFLE(uint64_t, v, v, 1, 0);
    vec_uint32_t words = (vec_uint32_t)v;
    words = SHUFFLE(uint32_t, words, words, 3, 2, 1, 0);
    if (bits < 32) words = words << 16 | words >> 16;
    vec_uint16_t halves = (vec_uint16_t)words;
    if (bits < 16) halves = (vec_uint16_t)(halves << 8 | halves >> 8);
    return (vec_uint64_t)halves;
}

#define MOVES(type)                                                                                                    \
    enum { WIDTH_##type = VECTOR / sizeof(type), SIDE_##type = CACHE_LINE / sizeof(type) };                            \
                                                                                                                       \
    static void reverse_##type(const type *restrict x, type *restrict y, int64_t n) {                                  \
        enum { W = WIDTH_##type };                                                                                     \
        int64_t i = 0;                                                                                                 \
        for (; i + W <= n; i += W) {                                                                                   \
            vec_uint64_t v;                                                                                            \
            memcpy(&v, x - i - (W - 1), sizeof v);                                                                     \
            v = reverse_vector(v, 8 * sizeof(type));                                                                   \
            memcpy(y + i, &v, sizeof v);                                                                               \
        }                                                                                                              \
        for (; i < n; i++) y[i] = x[-i];                                                                               \
    }                                                                                                                  \
                                                                                                                       \
    /* n elements along one axis. */                                                                                   \
    static void line_##type(const type *restrict x, int64_t xs, type *restrict y, int64_t ys, int64_t n) {             \
        if (ys == 1 && xs == 1) memcpy(y, x, (size_t)n * sizeof(type));                                                \
        else if (ys == 1 && xs == 0) for (int64_t i = 0; i < n; i++) y[i] = x[0];                                      \
        else if (ys == 1 && xs == -1) reverse_##type(x, y, n);                                                         \
        else if (ys == 1 && xs == 2) for (int64_t i = 0; i < n; i++) y[i] = x[2 * i];                                  \
        else if (ys == 1) for (int64_t i = 0; i < n; i++) y[i] = x[i * xs];                                            \
        else if (xs == 1) for (int64_t i = 0; i < n; i++) y[i * ys] = x[i];                                            \
        else for (int64_t i = 0; i < n; i++) y[i * ys] = x[i * xs];                                                    \
    }                                                                                                                  \
                                                                                                                       \
    /* A square of WIDTH elements from lines x_column apart to rows y_row apart. Merging line i with line              \
     * i + WIDTH / 2 element by element, as often as WIDTH can be halved, is a transpose. */                           \
    static inline void turn_square_##type(const type *x, int64_t x_column, type *y, int64_t y_row) {                   \
        enum { W = WIDTH_##type };                                                                                     \
        vec_##type a[W], b[W];                                                                                         \
        for (int i = 0; i < W; i++) memcpy(&a[i], x + i * x_column, sizeof a[i]);                                      \
        for (int round = 1; round < W; round *= 2) {                                                                   \
            for (int i = 0; i < W / 2; i++) {                                                                          \
                b[2 * i] = LOW_##type(a[i], a[i + W / 2]);                                                             \
                b[2 * i + 1] = HIGH_##type(a[i], a[i + W / 2]);                                                        \
            }                                                                                                          \
            memcpy(a, b, sizeof a);                                                                                    \
        }                                                                                                              \
        for (int i = 0; i < W; i++) memcpy(y + i * y_row, &a[i], sizeof a[i]);                                         \
    }                                                                                                                  \
                                                                                                                       \
    /* A block by squares, of which the last ones overlap the others. */                                               \
    static __attribute__((noinline)) void turn_block_##type(const type *x, int64_t x_column, type *y, int64_t y_row,   \
                                                            int64_t rows, int64_t columns) {                           \
        enum { W = WIDTH_##type };                                                                                     \
        for (int64_t c0 = 0; c0 < columns; c0 += W)                                                                    \
            for (int64_t r0 = 0; r0 < rows; r0 += W) {                                                                 \
                const int64_t r = eb_min(r0, rows - W), c = eb_min(c0, columns - W);                                   \
                turn_square_##type(x + r + c * x_column, x_column, y + r * y_row + c, y_row);                          \
            }                                                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    /* x_row and y_column are 1; WIDTH rows and columns at least. */                                                   \
    static void turn_##type(const type *x, type *y, const plane *p, int streams) {                                     \
        enum { W = WIDTH_##type, SIDE = SIDE_##type };                                                                 \
        type square[SIDE * SIDE] __attribute__((aligned(CACHE_LINE)));                                                 \
        const int64_t apart = p->y_row * (int64_t)sizeof(type);                                                        \
        const int is_direct = !streams && (apart & -apart) <= NEAR / SIDE;                                             \
        streams = streams && !((uintptr_t)y % CACHE_LINE) && p->y_row % SIDE == 0;                                     \
        for (int64_t r0 = 0; r0 < p->rows; r0 += SIDE)                                                                 \
            for (int64_t c0 = 0; c0 < p->columns; c0 += SIDE) {                                                        \
                const int64_t first_row = eb_min(r0, p->rows - W), first_column = eb_min(c0, p->columns - W);          \
                const int64_t rows = eb_min(SIDE, p->rows - first_row);                                                \
                const int64_t columns = eb_min(SIDE, p->columns - first_column);                                       \
                const type *from = x + first_row + first_column * p->x_column;                                         \
                type *to = y + first_row * p->y_row + first_column;                                                    \
                if (is_direct) {                                                                                       \
                    turn_block_##type(from, p->x_column, to, p->y_row, rows, columns);                                 \
                    continue;                                                                                          \
                }                                                                                                      \
                turn_block_##type(from, p->x_column, square, SIDE, rows, columns);                                     \
                for (int64_t r = 0; r < rows; r++, to += p->y_row)                                                     \
                    if (columns < SIDE) memcpy(to, square + r * SIDE, (size_t)columns * sizeof(type));                 \
                    else if (streams) eb_stream(to, square + r * SIDE, CACHE_LINE);                                    \
                    else memcpy(to, square + r * SIDE, CACHE_LINE);                                                    \
            }                                                                                                          \
    }                                                                                                                  \
                                                                                                                       \
    /* The first half of n vectors and the second, element by element: element p goes to place 2 p modulo n W - 1. */  \
    static inline void merge_halves_##type(const vec_##type *a, vec_##type *b, int n) {                                \
        for (int i = 0; i < n; i++) {                                                                                  \
            const vec_##type first = a[i / 2], second = n % 2 ? SWAP(type, a[(i + n) / 2]) : a[(i + n) / 2];           \
            b[i] = i % 2 ? HIGH_##type(first, second) : LOW_##type(first, second);                                     \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* The inverse of it: the elements at even places of n vectors, then the others. */                                \
    static inline void part_halves_##type(const vec_##type *a, vec_##type *b, int n) {                                 \
        const int middle = n / 2, odd = n % 2;                                                                         \
        for (int i = 0; i < middle; i++) {                                                                             \
            b[i] = EVEN_##type(a[2 * i], a[2 * i + 1]);                                                                \
            b[middle + odd + i] = ODD_##type(a[2 * i + odd], a[2 * i + odd + 1]);                                      \
        }                                                                                                              \
        if (odd) {                                                                                                     \
            const vec_##type even = EVEN_##type(a[n - 1], a[n - 1]), other = ODD_##type(a[0], a[0]);                   \
            b[middle] = (vec_##type)LOW_uint64_t((vec_uint64_t)even, (vec_uint64_t)other);                             \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    /* Places of n elements beside each other, WIDTH at a time, to rows of the result: log2(WIDTH) merges turn the     \
     * n vectors of WIDTH places. The last place is not read as a vector: less than n elements may belong to x. */     \
    static inline void spread_places_##type(const type *x, type *y, const plane *p, int n) {                           \
        enum { W = WIDTH_##type };                                                                                     \
        int64_t c = 0;                                                                                                 \
        for (; c + W < p->columns; c += W) {                                                                           \
            vec_##type a[2][VECTOR];                                                                                   \
            int at = 0;                                                                                                \
            for (int i = 0; i < n; i++) memcpy(&a[0][i], x + c * n + i * W, sizeof a[0][0]);                           \
            for (int round = 1; round < W; round *= 2, at ^= 1) merge_halves_##type(a[at], a[!at], n);                 \
            for (int r = 0; r < p->rows; r++) memcpy(y + r * p->y_row + c, &a[at][r], sizeof a[0][0]);                 \
        }                                                                                                              \
        for (; c < p->columns; c++)                                                                                    \
            for (int r = 0; r < p->rows; r++) y[r * p->y_row + c] = x[c * n + r];                                      \
    }                                                                                                                  \
                                                                                                                       \
    /* The other way: n lines of x become places of n elements. */                                                     \
    static inline void collect_places_##type(const type *x, type *y, const plane *p, int n) {                          \
        enum { W = WIDTH_##type };                                                                                     \
        if (n < 2) __builtin_unreachable();                                                                            \
        for (int64_t r0 = 0; r0 < p->rows; r0 += W) {                                                                  \
            const int64_t r = eb_min(r0, p->rows - W);                                                                 \
            vec_##type a[2][VECTOR];                                                                                   \
            int at = 0;                                                                                                \
            for (int i = 0; i < n; i++) memcpy(&a[0][i], x + r + i * p->x_column, sizeof a[0][0]);                     \
            if (n & (n - 1))                                                                                           \
                for (int round = 1; round < W; round *= 2, at ^= 1) part_halves_##type(a[at], a[!at], n);              \
            else                                                                                                       \
                for (int round = 1; round < n; round *= 2, at ^= 1) merge_halves_##type(a[at], a[!at], n);             \
            for (int i = 0; i < n; i++) memcpy(y + r * n + i * W, &a[at][i], sizeof a[0][0]);                          \
        }                                                                                                              \
    }                                                                                                                  \
                                                                                                                       \
    static void spread_##type(const type *x, type *y, const plane *p) {                                                \
        if (p->x_column == 2) spread_places_##type(x, y, p, 2);                                                        \
        else if (p->x_column == 3) spread_places_##type(x, y, p, 3);                                                   \
        else if (p->x_column == 4) spread_places_##type(x, y, p, 4);                                                   \
        else spread_places_##type(x, y, p, (int)p->x_column);                                                          \
    }                                                                                                                  \
                                                                                                                       \
    static void collect_##type(const type *x, type *y, const plane *p) {                                               \
        if (p->columns == 2) collect_places_##type(x, y, p, 2);                                                        \
        else if (p->columns == 3) collect_places_##type(x, y, p, 3);                                                   \
        else if (p->columns == 4) collect_places_##type(x, y, p, 4);                                                   \
        else collect_places_##type(x, y, p, (int)p->columns);                                                          \
    }                                                                                                                  \
    static void move_##type(const void *from, void *to, plane p, int streams) {                                        \
        const type *x = from;                                                                                          \
        type *y = to;                                                                                                  \
        switch (choose_way(&p, sizeof(type))) {                                                                        \
        case SPREAD: spread_##type(x, y, &p); return;                                                                  \
        case COLLECT: collect_##type(x, y, &p); return;                                                                \
        case TURN:                                                                                                     \
            if (p.x_row == -1) { /* from the last row to the first */                                                  \
                x -= p.rows - 1;                                                                                       \
                y += (p.rows - 1) * p.y_row;                                                                           \
                p.y_row = -p.y_row;                                                                                    \
            }                                                                                                          \
            turn_##type(x, y, &p, streams);                                                                            \
            return;                                                                                                    \
        default: break;                                                                                                \
        }                                                                                                              \
        if (p.columns >= SHORT || p.columns >= p.rows)                                                                 \
            for (int64_t r = 0; r < p.rows; r++)                                                                       \
                line_##type(x + r * p.x_row, p.x_column, y + r * p.y_row, p.y_column, p.columns);                      \
        else                                                                                                           \
            for (int64_t r0 = 0; r0 < p.rows; r0 += LONG)                                                              \
                for (int64_t c = 0; c < p.columns; c++)                                                                \
                    line_##type(x + r0 * p.x_row + c * p.x_column, p.x_row, y + r0 * p.y_row + c * p.y_column,         \
                                p.y_row, eb_min(LONG, p.rows - r0));                                                   \
    }
MOVES(uint8_t)
MOVES(uint16_t)
MOVES(uint32_t)
MOVES(uint64_t)

static void move_plane(const char *x, char *y, const plane *p, int64_t size, int streams) {
    if (streams && p->x_column == 1 && p->y_column == 1 && p->columns * size >= 4 * CACHE_LINE) {
        for (int64_t r = 0; r < p->rows; r++)
            eb_stream(y + r * p->y_row * size, x + r * p->x_row * size, p->columns * size);
        return;
    }
    switch (size) {
    case 1: move_uint8_t(x, y, *p, streams); break;
    case 2: move_uint16_t(x, y, *p, streams); break;
    case 4: move_uint32_t(x, y, *p, streams); break;
    default: move_uint64_t(x, y, *p, streams);
    }
}

/* --- a loop of many planes ---------------------------------------------------------------------------------------- */

typedef struct {
    eb_loop outer; /* the axes around the plane; operands: x, y */
    plane inner;
    int64_t slice_rows, slice_columns; /* a plane is cut into slices of about TILE_BYTES */
    int64_t across, slices;            /* beside each other in a plane; in all planes */
} movement;

static movement plan_movement(const eb_loop *loop, int64_t size) {
    int last = loop->rank - 1, row = last - 1;
    for (int axis = 0; axis < last && loop->stride[0][last] != 1; axis++)
        if (loop->stride[0][axis] == 1 || loop->stride[0][axis] == -1) row = axis;
    movement m = {.outer = eb_loop_new(2), .inner = {.rows = 1, .columns = loop->shape[last]}};
    m.inner.x_column = loop->stride[0][last];
    m.inner.y_column = loop->stride[1][last];
    for (int axis = 0; axis < last; axis++) {
        int64_t strides[2] = {loop->stride[0][axis], loop->stride[1][axis]};
        if (axis != row) {
            eb_loop_axis(&m.outer, loop->shape[axis], strides);
            continue;
        }
        m.inner.rows = loop->shape[axis];
        m.inner.x_row = strides[0];
        m.inner.y_row = strides[1];
    }
    const int64_t most = TILE_BYTES / size, side = CACHE_LINE / size;
    const way by = choose_way(&m.inner, size);
    const int64_t together = by == TURN ? side : by == SPREAD ? m.inner.rows : 1; /* rows that a slice has at least */
    m.slice_columns = eb_max(1, eb_min(m.inner.columns, most / together));
    m.slice_rows = eb_max(1, most / m.slice_columns / together) * together;
    m.across = eb_ceil_div(m.inner.columns, m.slice_columns);
    m.slices = m.outer.count * m.across * eb_ceil_div(m.inner.rows, m.slice_rows);
    return m;
}

/* Slices [begin, end) of all planes, counted through. */
static void move_slices(const char *x, char *y, const movement *m, int64_t begin, int64_t end, int64_t size) {
    if (begin >= end) return;
    const int streams = m->outer.count * m->inner.rows * m->inner.columns * size >= EB_STREAM_BYTES;
    const int64_t each = m->slices / m->outer.count;
    eb_cursor c;
    eb_cursor_seek(&m->outer, &c, begin / each);
    for (int64_t i = begin, slice = begin % each; i < end; i++) {
        const int64_t row = slice / m->across * m->slice_rows, column = slice % m->across * m->slice_columns;
        plane p = m->inner;
        p.rows = eb_min(m->slice_rows, p.rows - row);
        p.columns = eb_min(m->slice_columns, p.columns - column);
        move_plane(x + (c.offset[0] + row * p.x_row + column * p.x_column) * size,
                   y + (c.offset[1] + row * p.y_row + column * p.y_column) * size, &p, size, streams);
        if (++slice == each) {
            slice = 0;
            eb_cursor_advance(&m->outer, &c, 1);
        }
    }
    if (streams) eb_stream_end();
}

/* Slices that make a tile. */
static int64_t slices_a_tile(const movement *m, int64_t size) {
    return eb_max(1, TILE_BYTES / size / eb_max(1, eb_min(m->slice_rows, m->inner.rows) * m->slice_columns));
}

/* --- copy --------------------------------------------------------------------------------------------------------- */

static eb_status copy_loop(const eb_node *node, eb_loop *loop) {
    const eb_tensor *x = eb_input(node, EB_IN_COPY_X), *y = eb_output(node);
    int same = x->rank == y->rank && memcmp(x->shape, y->shape, sizeof(int64_t) * (size_t)x->rank) == 0;
    if (x->dtype != y->dtype || (!same && (eb_size(x) != eb_size(y) || !eb_is_dense(y)))) return EB_NOT_APPLICABLE;
    *loop = eb_loop_new(2);
    int64_t step = eb_size(x);
    for (int axis = 0; axis < x->rank && step; axis++) {
        step /= x->shape[axis];
        int64_t strides[2] = {x->stride[axis], same ? y->stride[axis] : step};
        eb_loop_axis(loop, x->shape[axis], strides);
    }
    return EB_OK;
}

/* Tiles of a movement, which are those of copy and flip. */
static void plan_tiles(eb_node *node, const eb_loop *loop) {
    const eb_tensor *y = eb_output(node);
    if (eb_size(y) == 0) return;
    movement m = plan_movement(loop, eb_element_size(y->dtype));
    node->tiles = eb_ceil_div(m.slices, slices_a_tile(&m, eb_element_size(y->dtype)));
}

/* From element `first` of input 0. */
static void run_tiles(const eb_node *node, void *const *bases, const eb_loop *loop, int64_t first, int64_t begin, int64_t end) {
    const int64_t size = eb_element_size(eb_output(node)->dtype);
    const movement m = plan_movement(loop, size);
    const int64_t each = slices_a_tile(&m, size);
    move_slices((const char *)eb_data(eb_input(node, 0), bases) + first * size, eb_data(eb_output(node), bases), &m, begin * each,
                eb_min(end * each, m.slices), size);
}

static eb_status plan_copy(eb_node *node) {
    eb_loop loop;
    eb_status status = copy_loop(node, &loop);
    if (status == EB_OK) plan_tiles(node, &loop);
    return status;
}

static eb_status run_copy(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    eb_loop loop;
    copy_loop(node, &loop);
    run_tiles(node, bases, &loop, 0, begin, end);
    return EB_OK;
}
const eb_kernel any_copy__generic_blocked = {plan_copy, run_copy};

void eb_make_dense(void *to, const void *from, int32_t size, int32_t rank, const int64_t *shape, const int64_t *stride) {
    eb_loop loop = eb_loop_new(2);
    int64_t step = 1;
    for (int axis = 0; axis < rank; axis++) step *= shape[axis];
    if (step == 0) return;
    for (int axis = 0; axis < rank; axis++) {
        step /= shape[axis];
        int64_t strides[2] = {stride[axis], step};
        eb_loop_axis(&loop, shape[axis], strides);
    }
    movement m = plan_movement(&loop, size);
    move_slices(from, to, &m, 0, m.slices, size);
}

/* --- flip: x from its last element along the axes, in steps backwards ----------------------------------------------- */

/* Answers the element to begin at. */
static int64_t flip_loop(const eb_node *node, eb_loop *loop) {
    const eb_tensor *x = eb_input(node, EB_IN_FLIP_X), *y = eb_output(node);
    int64_t first = 0;
    *loop = eb_loop_new(2);
    for (int a = 0; a < x->rank; a++) {
        int64_t strides[2] = {x->stride[a], y->stride[a]};
        if (node->ints[EB_INT_FLIP_AXES] >> a & 1) {
            first += (x->shape[a] - 1) * x->stride[a];
            strides[0] = -x->stride[a];
        }
        eb_loop_axis(loop, x->shape[a], strides);
    }
    return first;
}

static eb_status plan_flip(eb_node *node) {
    eb_loop loop;
    if (eb_input(node, EB_IN_FLIP_X)->dtype != eb_output(node)->dtype) return EB_NOT_APPLICABLE;
    flip_loop(node, &loop);
    plan_tiles(node, &loop);
    return EB_OK;
}

static eb_status run_flip(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    eb_loop loop;
    int64_t first = flip_loop(node, &loop);
    run_tiles(node, bases, &loop, first, begin, end);
    return EB_OK;
}
const eb_kernel any_flip__generic_blocked = {plan_flip, run_flip};

/* --- concat: the tiles of one input after those of another --------------------------------------------------------- */

/* Answers the number of tiles of input `i`: that of a copy of it. */
static int64_t plan_part(const eb_node *node, int i, movement *m) {
    const eb_tensor *x = eb_input(node, i), *y = eb_output(node);
    if (eb_size(x) == 0) return 0;
    eb_loop loop = eb_loop_new(2);
    for (int a = 0; a < x->rank; a++) {
        int64_t strides[2] = {x->stride[a], y->stride[a]};
        eb_loop_axis(&loop, x->shape[a], strides);
    }
    *m = plan_movement(&loop, eb_element_size(y->dtype));
    return eb_ceil_div(m->slices, slices_a_tile(m, eb_element_size(y->dtype)));
}

static eb_status plan_concat(eb_node *node) {
    movement m;
    int64_t tiles = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        if (eb_input(node, i)->dtype != eb_output(node)->dtype) return EB_NOT_APPLICABLE;
        tiles += plan_part(node, i, &m);
    }
    node->tiles = tiles;
    return EB_OK;
}

static eb_status run_concat(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const eb_tensor *y = eb_output(node);
    int axis = (int)node->ints[EB_INT_CONCAT_AXIS];
    int64_t size = eb_element_size(y->dtype), start = 0, tiles;
    for (int i = 0; i < node->n_inputs && end > 0; i++, begin = eb_max(0, begin - tiles), end -= tiles) {
        movement m;
        tiles = plan_part(node, i, &m);
        if (begin < tiles) {
            int64_t each = slices_a_tile(&m, size);
            move_slices(eb_data(eb_input(node, i), bases), (char *)eb_data(y, bases) + start * y->stride[axis] * size, &m,
                        begin * each, eb_min(end * each, m.slices), size);
        }
        start += eb_input(node, i)->shape[axis];
    }
    return EB_OK;
}
const eb_kernel any_concat__generic_blocked = {plan_concat, run_concat};
