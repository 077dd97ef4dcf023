/* pad of any dtype: whole runs of x from the last axis that is padded on, beside what is put around them. */
#include <string.h>

#include "../../engine.h"
#include "../../iterate.h"
#include "../../ops.h"
#include "../../ref/element.h"

typedef struct {
    int64_t rows; /* rows of the result a tile; a row is the last axis that is padded and all behind it */
} tiling;
EB_NODE_PLAN(tiling)

enum { FILLED = 64, PIECE = 16 /* bytes */ };

typedef struct {
    int axis;                /* the last one that is padded; those behind it are a run of `run` bytes */
    int64_t n, low, high;    /* along it */
    int64_t lines, x_lines;  /* rows along the axis in front of it: of the result and of x */
    int64_t run, size, rows; /* size: of an element; rows: of the result */
    int64_t x_line;          /* bytes from one row of x to the next */
    int64_t mode;
    char filler[FILLED];     /* again and again */
} problem;

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_PAD_X), *y = eb_output(node);
    const int64_t *low = node->ints + EB_INT_PAD_LOW, *high = node->ints + EB_INT_PAD_HIGH;
    problem p = {.axis = x->rank - 1, .size = eb_element_size(x->dtype), .rows = 1, .mode = node->ints[EB_INT_PAD_MODE]};
    while (p.axis > 0 && !low[p.axis] && !high[p.axis]) p.axis--;
    p.n = x->shape[p.axis], p.low = low[p.axis], p.high = high[p.axis];
    p.lines = p.axis ? y->shape[p.axis - 1] : 1, p.x_lines = p.axis ? x->shape[p.axis - 1] : 1;
    p.x_line = p.axis ? x->stride[p.axis - 1] * p.size : 0;
    p.run = p.size;
    for (int a = p.axis + 1; a < x->rank; a++) p.run *= x->shape[a];
    for (int a = 0; a < p.axis; a++) p.rows *= y->shape[a];
    for (int64_t i = 0; i < FILLED / p.size; i++)
        eb_store_any(x->dtype, p.filler, i, 1, node->reals[EB_REAL_PAD_VALUE], 0);
    return p;
}

static eb_status plan(eb_node *node) {
    enum { TILE_BYTES = 1 << 16 };
    const eb_tensor *x = eb_input(node, EB_IN_PAD_X), *y = eb_output(node);
    if (x->rank == 0 || x->dtype != y->dtype || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    const problem p = describe(node);
    if (eb_size(x) && !eb_is_dense_from(x, p.axis)) return EB_NEEDS_DENSE;
    if (eb_size(y) == 0) return EB_OK;
    edit_tiling(node)->rows = eb_max(1, TILE_BYTES / (y->shape[p.axis] * p.run));
    node->tiles = eb_ceil_div(p.rows, tiling_of(node)->rows);
    return EB_OK;
}

/* The element of an axis of `size` that place `at` stands for, counted from the axis's first one; -1: the filler. */
static int64_t source_of(int64_t mode, int64_t at, int64_t size) {
    if (at >= 0 && at < size) return at;
    switch (mode) {
    case EB_PAD_MODE_REFLECT: return at < 0 ? -at : 2 * (size - 1) - at;
    case EB_PAD_MODE_REPLICATE: return at < 0 ? 0 : size - 1;
    case EB_PAD_MODE_CIRCULAR: return at < 0 ? at + size : at - size;
    default: return -1;
    }
}

/* A copy; of short rows without a call: pieces of 16 bytes, of which the last may overlap. */
static inline void put(char *to, const char *from, int64_t bytes) {
    if (bytes >= PIECE && bytes <= 16 * PIECE) {
        for (int64_t i = 0; i < bytes - PIECE; i += PIECE) memcpy(to + i, from + i, PIECE);
        memcpy(to + bytes - PIECE, from + bytes - PIECE, PIECE);
        return;
    }
    memcpy(to, from, (size_t)bytes);
}

/* Single elements of other places. */
#define AROUND(bits)                                                                                                   \
    static inline void around_##bits(uint##bits##_t *y, const uint##bits##_t *x, const problem *p, int64_t begin,      \
                                     int64_t end) {                                                                    \
        const int64_t mode = p->mode, n = p->n, low = p->low;                                                          \
        for (int64_t at = begin; at < end; at++) y[at + low] = x[source_of(mode, at, n)];                              \
    }
AROUND(8)
AROUND(16)
AROUND(32)
AROUND(64)

/* `bytes` of fillers, in pieces of constant size: no calls for the few elements beside a row. What lies behind them in the
 * `room` that begins here is written later, so few are one piece. */
static inline void fill(const problem *p, char *to, int64_t bytes, int64_t room) {
    if (bytes <= PIECE && room >= PIECE) {
        memcpy(to, p->filler, PIECE);
        return;
    }
    for (; bytes >= FILLED; bytes -= FILLED, to += FILLED) memcpy(to, p->filler, FILLED);
    if (bytes & 32) memcpy(to, p->filler, 32), to += 32;
    if (bytes & 16) memcpy(to, p->filler, 16), to += 16;
    if (bytes & 8) memcpy(to, p->filler, 8), to += 8;
    if (bytes & 4) memcpy(to, p->filler, 4), to += 4;
    if (bytes & 2) memcpy(to, p->filler, 2), to += 2;
    if (bytes & 1) *to = p->filler[0];
}

/* Places [begin, end) of a row that lie outside of x. `room`: bytes of y from the row on that this tile writes. */
static inline void put_around(const problem *p, const char *x, char *y, int64_t begin, int64_t end, int64_t room) {
    const int64_t run = p->run, first = (begin + p->low) * run;
    if (p->mode == EB_PAD_MODE_CONSTANT) {
        if (begin < end) fill(p, y + first, (end - begin) * run, room - first);
        return;
    }
    switch (run) {
    case 1: around_8((uint8_t *)y, (const uint8_t *)x, p, begin, end); break;
    case 2: around_16((uint16_t *)y, (const uint16_t *)x, p, begin, end); break;
    case 4: around_32((uint32_t *)y, (const uint32_t *)x, p, begin, end); break;
    case 8: around_64((uint64_t *)y, (const uint64_t *)x, p, begin, end); break;
    default:
        for (int64_t at = begin; at < end; at++) put(y + (at + p->low) * run, x + source_of(p->mode, at, p->n) * run, run);
    }
}

/* A row of x, or a row of fillers where it is NULL, with what is around it. */
static inline void put_row(const problem *p, const char *x, char *y, int64_t room) {
    if (!x || p->n == 0) {
        fill(p, y, (p->low + p->n + p->high) * p->run, room);
        return;
    }
    put_around(p, x, y, -p->low, 0, room);
    put(y + p->low * p->run, x, p->n * p->run);
    put_around(p, x, y, p->n, p->n + p->high, room);
}

/* The element at which the plane of x begins, `x_lines` rows of it, that plane `plane` of the result is made of; -1: all of
 * it is filler. */
static int64_t plane_of(const eb_node *node, const problem *p, int64_t plane) {
    const eb_tensor *x = eb_input(node, EB_IN_PAD_X), *y = eb_output(node);
    int64_t from = 0;
    for (int a = p->axis - 2; a >= 0; plane /= y->shape[a], a--) {
        const int64_t at = source_of(p->mode, plane % y->shape[a] - node->ints[EB_INT_PAD_LOW + a], x->shape[a]);
        if (at < 0) return -1;
        from += at * x->stride[a];
    }
    return from;
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    const problem p = describe(node);
    const char *x = eb_data(eb_input(node, EB_IN_PAD_X), bases);
    const int64_t whole = (p.low + p.n + p.high) * p.run, each = tiling_of(node)->rows, last = eb_min(p.rows, end * each);
    const int64_t above = p.axis ? node->ints[EB_INT_PAD_LOW + p.axis - 1] : 0;
    char *y = eb_data(eb_output(node), bases);
    for (int64_t row = begin * each; row < last;) {
        const int64_t plane = plane_of(node, &p, row / p.lines);
        for (int64_t line = row % p.lines; line < p.lines && row < last; line++, row++) {
            const int64_t at = source_of(p.mode, line - above, p.x_lines);
            const char *from = plane < 0 || at < 0 ? NULL : x + plane * p.size + at * p.x_line;
            put_row(&p, from, y + row * whole, (last - row) * whole);
        }
    }
    return EB_OK;
}
const eb_kernel any_pad__generic_rows = {plan, run};
