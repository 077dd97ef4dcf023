/* The loop of csrc/kernels/vector/micro.h with another product than that of floats: bytes in groups of four, summed in int32,
 * scaled to floats and finished by the same epilogue. Compiled once for each instruction set, as the kernels are. */
#include <stdlib.h>

#include "case.h"
#include "kernels/vector/epilogue.h"

typedef int8_t micro_x, micro_b;
typedef vi micro_factor, micro_sum;
enum { MICRO_GROUP = 4 };

EB_INLINE vi micro_broadcast(const int8_t *x) {
    int32_t group;
    memcpy(&group, x, sizeof group);
    return vi_set(group);
}

EB_INLINE vi micro_load(const int8_t *b) {
    vi groups;
    memcpy(&groups, b, sizeof groups);
    return groups;
}

/* Byte i of each lane, with its sign. */
EB_INLINE vi byte_of(vi v, int i) { return (vi)((vu)v << (24 - 8 * i)) >> 24; }

/* Not inlined, since the micro-kernels have thousands of multiply-adds, which would take minutes to compile. */
static __attribute__((noinline)) vi add_products(vi sum, vi x, vi b) {
    for (int i = 0; i < MICRO_GROUP; i++) sum += byte_of(x, i) * byte_of(b, i);
    return sum;
}

EB_INLINE void micro_multiply_add(vi *sum, vi x, vi b) { *sum = add_products(*sum, x, b); }

typedef struct {
    eb_micro tile;
    float scales[EB_MR];             /* of the rows */
    int32_t sums[EB_MR][2 * EB_VL];  /* a copy of the accumulators */
} byte_tile;

EB_INLINE void micro_finish(const eb_micro *t, vi sum[][2], const int R, const int V) {
    byte_tile *own = (byte_tile *)t;
    vf scaled[EB_MR][2];
    EB_UNROLL
    for (int r = 0; r < R; r++)
        EB_UNROLL
        for (int v = 0; v < V; v++) {
            memcpy(own->sums[r] + v * EB_VL, &sum[r][v], sizeof(vi));
            scaled[r][v] = __builtin_convertvector(sum[r][v], vf) * own->scales[r];
        }
    finish_sums(t, scaled, R, V);
}

#include "kernels/vector/micro.h"

enum { MOST_PIECES = 3, GAP = 5 };

/* x [rows, pieces, depth] and b [pieces, depth, columns], each with zeros behind `depth` up to whole groups. */
typedef struct {
    int rows, columns, form;
    int64_t pieces, depth, groups, x_row, x_k, ldb;
    int64_t places[EB_MR], x_pieces[MOST_PIECES];
    int8_t *x, *b;
} problem;

static int8_t *x_at(const problem *p, int64_t row, int64_t piece, int64_t k) {
    int64_t begin = p->form >= PLACES_ONE ? p->places[row] + p->x_pieces[piece] : row * p->x_row;
    return p->x + begin + k / MICRO_GROUP * p->x_k + k % MICRO_GROUP;
}

static int8_t *b_at(const problem *p, int64_t piece, int64_t k, int64_t column) {
    return p->b + (piece * p->groups + k / MICRO_GROUP) * p->ldb + column * MICRO_GROUP + k % MICRO_GROUP;
}

static int8_t random_byte(void) { return (int8_t)(random_below(256) - 128); }

/* Rows and pieces lie in reverse order where a table has their places, else one behind the other with gaps. Bytes of gaps and
 * of columns that do not take part are not 0. */
static problem make_problem(int rows, int form, int64_t pieces, int64_t depth) {
    const int columns = form == ONE_VECTOR || form == PLACES_ONE ? EB_VL : EB_NR, has_places = form >= PLACES_ONE;
    problem p = {.rows = rows, .columns = columns, .form = form, .pieces = pieces, .depth = depth};
    p.groups = eb_ceil_div(depth, MICRO_GROUP);
    p.x_k = has_places ? MICRO_GROUP : MICRO_GROUP + GAP;
    p.x_row = pieces * p.groups * p.x_k + GAP;
    p.ldb = (has_places ? EB_NR : columns) * MICRO_GROUP;
    for (int row = 0; row < rows; row++) p.places[row] = (rows - 1 - row) * p.x_row;
    for (int64_t s = 0; s < pieces; s++) p.x_pieces[s] = (pieces - 1 - s) * p.groups * MICRO_GROUP;
    const size_t x_bytes = (size_t)(rows * p.x_row), b_bytes = (size_t)(pieces * p.groups * p.ldb);
    p.x = memset(malloc(x_bytes), 99, x_bytes);
    p.b = memset(malloc(b_bytes + 1), 99, b_bytes);
    for (int64_t s = 0; s < pieces; s++)
        for (int64_t k = 0; k < p.groups * MICRO_GROUP; k++) {
            for (int row = 0; row < rows; row++) *x_at(&p, row, s, k) = k < depth ? random_byte() : 0;
            for (int n = 0; n < columns; n++) *b_at(&p, s, k, n) = k < depth ? random_byte() : 0;
        }
    return p;
}

static int32_t sum_of(const problem *p, int row, int column) {
    int32_t sum = 0;
    for (int64_t s = 0; s < p->pieces; s++)
        for (int64_t k = 0; k < p->depth; k++) sum += *x_at(p, row, s, k) * *b_at(p, s, k, column);
    return sum;
}

/* All numbers of the epilogue are multiples of 1/8 below 2^21, so that floats hold them exactly. */
static void check_problem(const problem *p, float clamp) {
    float y[EB_MR * EB_NR], bias[EB_NR], residual[EB_MR * EB_NR];
    byte_tile t = {.tile = {.groups = p->groups, .x = p->x, .x_row = p->x_row, .x_k = p->x_k, .b = p->b, .ldb = p->ldb,
                            .y = y, .ldy = EB_NR, .alpha = 0.5f, .bias = bias, .residual = residual, .ldr = EB_NR,
                            .next = (const char *)p->b, .next_step = 64, .x_places = p->places, .x_pieces = p->x_pieces,
                            .pieces = p->pieces, .clamp = clamp}};
    for (int n = 0; n < EB_NR; n++) bias[n] = (float)random_below(1000) - 500;
    for (int i = 0; i < EB_MR * EB_NR; i++) residual[i] = (float)random_below(1000) - 500;
    for (int row = 0; row < p->rows; row++) t.scales[row] = row % 2 ? 0.25f : 1;
    micro_tiles[p->rows - 1][p->form](&t.tile);
    for (int row = 0; row < p->rows; row++)
        for (int n = 0; n < p->columns; n++) {
            const int32_t expected = sum_of(p, row, n);
            float value = 0.5f * t.scales[row] * (float)expected + bias[n] + residual[row * EB_NR + n];
            if (clamp > 0) value = fminf(clamp, fmaxf(0, value));
            if (t.sums[row][n] == expected && y[row * EB_NR + n] == value) continue;
            fail("micro-kernel of %s, form %d, %d rows, %d pieces of %d k: sum [%d, %d] is %d and %g, expected %d and %g",
                 EB_TEXT(EB_ISA), p->form, p->rows, (int)p->pieces, (int)p->depth, row, n, t.sums[row][n], y[row * EB_NR + n],
                 expected, value);
            return;
        }
}

void EB_PASTE(test_bytes_, EB_ISA, , , , )(void) {
    static const int64_t depths[] = {0, 1, 4, 6, 12, 17, 33}; /* 0 to 9 groups, of which one row takes four at a time */
    static const float clamps[] = {0, INFINITY, 6};
    for (int rows = 1; rows <= EB_MR; rows++)
        for (int form = 0; form < FORMS; form++)
            for (int d = 0; d < (int)(sizeof depths / sizeof depths[0]); d++) {
                const int64_t pieces = form >= PLACES_ONE ? 1 + (rows + d) % MOST_PIECES : 1;
                problem p = make_problem(rows, form, pieces, depths[d]);
                total.cases++;
                check_problem(&p, clamps[d % 3]);
                free(p.x);
                free(p.b);
            }
}
