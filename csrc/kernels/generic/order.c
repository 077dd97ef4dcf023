/* argsort by integer keys that order as the elements do: NaN last, both zeros alike. Of types of up to 32 bits, a key and a place
 * share 64 bits; of longer ones, 128. All elements of a line are sorted by digits of 8 bits, or the first ones selected
 * (sort.h). Lines whose elements are not neighbours are read and written LINES at a time, which share cache lines. */
#include <string.h>

#include "../../engine.h"
#include "../../iterate.h"
#include "../../ops.h"
#include "../../ref/element.h"

enum {
    SHORTEST = 64, /* elements that are worth more than insertion */
    SCAN = 32,     /* keys that are compared with a limit at once */
    GROUPS = 2,    /* for each wanted element: more make a better limit, which takes longer to find */
    FEWEST = 32,   /* groups */
    GROUP = 4,     /* at least so many keys are in each */
    LINES = 16,
    ALIGNED = 64
};

/* Groups of keys of which a limit is found; 0 if all elements are sorted instead. */
static inline int64_t groups_of(int64_t count, int64_t wanted) {
    const int64_t groups = eb_max(GROUPS * wanted, FEWEST);
    return count >= SHORTEST && groups <= count / GROUP ? groups : 0;
}

/* Entries of one buffer: those of a line, or all that may be up to the limit and one that is not kept. */
static inline int64_t room_of(int64_t count, int64_t wanted) {
    const int64_t groups = groups_of(count, wanted);
    return groups ? eb_min(count + 1, wanted * (eb_ceil_div(count, groups) + 1) + 1) : count;
}

#define ENTRY uint64_t
#define KEY int32_t
#define PLACE_BITS 32
#define NAME(name) name##_64
#include "sort.h"

__extension__ typedef unsigned __int128 entry_of_128;
#define ENTRY entry_of_128
#define KEY int64_t
#define PLACE_BITS 64
#define NAME(name) name##_128
#include "sort.h"

/* --- keys ------------------------------------------------------------------------------------------------------------ */

/* Keys of `lines` lines, each `count` long: those of element j of line l, which is at first[l] + j * step, at [l][j]. `flip` is
 * -1 for a descending order. */
typedef void (*key_loader)(const void *data, const int64_t *first, int64_t lines, int64_t step, int64_t count, int flip, void *keys);

#define KEYS(name, type, key, value)                                                                                   \
    static void load_##name(const void *data, const int64_t *first, int64_t lines, int64_t step, int64_t count,        \
                            int flip, void *keys) {                                                                    \
        if (step == 1)                                                                                                 \
            for (int64_t l = 0; l < lines; l++)                                                                        \
                for (int64_t j = 0; j < count; j++) {                                                                  \
                    const type x = ((const type *)data)[first[l] + j];                                                 \
                    ((key *)keys)[l * count + j] = (value) ^ (key)flip;                                                \
                }                                                                                                      \
        else                                                                                                           \
            for (int64_t j = 0; j < count; j++)                                                                        \
                for (int64_t l = 0; l < lines; l++) {                                                                  \
                    const type x = ((const type *)data)[first[l] + j * step];                                          \
                    ((key *)keys)[l * count + j] = (value) ^ (key)flip;                                                \
                }                                                                                                      \
    }

static inline int32_t key_of_32(int32_t bits) {
    const int32_t magnitude = bits & INT32_MAX, ordered = bits < 0 ? -magnitude : magnitude;
    return magnitude > 0x7f800000 ? INT32_MAX : ordered;
}
static inline int64_t key_of_64(int64_t bits) {
    const int64_t magnitude = bits & INT64_MAX, ordered = bits < 0 ? -magnitude : magnitude;
    return magnitude > 0x7ff0000000000000 ? INT64_MAX : ordered;
}
/* Keys of short types lie in the upper bits, so that the lower bytes are alike. */
static inline int32_t key_of_16(int32_t bits, int32_t infinity) {
    const int32_t magnitude = bits & INT16_MAX, ordered = bits < 0 ? -magnitude : magnitude;
    return (magnitude > infinity ? INT16_MAX : ordered) * 65536;
}
KEYS(f32, int32_t, int32_t, key_of_32(x))
KEYS(f64, int64_t, int64_t, key_of_64(x))
KEYS(f16, int16_t, int32_t, key_of_16(x, 0x7c00))
KEYS(bf16, int16_t, int32_t, key_of_16(x, 0x7f80))
KEYS(i64, int64_t, int64_t, x)
KEYS(i32, int32_t, int32_t, x)
KEYS(i16, int16_t, int32_t, x * 65536)
KEYS(i8, int8_t, int32_t, x * (1 << 24))
KEYS(u8, uint8_t, int32_t, x * (1 << 16))

static const key_loader loaders[] = {[EB_F32] = load_f32, [EB_F64] = load_f64, [EB_F16] = load_f16, [EB_BF16] = load_bf16,
                                     [EB_I64] = load_i64, [EB_I32] = load_i32, [EB_I16] = load_i16, [EB_I8] = load_i8,
                                     [EB_U8] = load_u8,   [EB_BOOL] = load_u8};

/* --- the kernel ---------------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t lines, group;          /* lines in all, and those that are read at once; a tile has whole groups */
    int64_t groups;                /* of a tile */
    int64_t keys, least, entries, places; /* bytes of scratch: keys, those of groups, one buffer of entries, places */
} tiling;
EB_NODE_PLAN(tiling)

/* The lines, with x and the output as operands. */
static eb_loop lines_of(const eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ARGSORT_X), *y = eb_output(node);
    eb_loop loop = eb_loop_new(2);
    for (int axis = 0; axis < x->rank; axis++)
        if (axis != node->ints[EB_INT_ARGSORT_AXIS])
            eb_loop_axis(&loop, x->shape[axis], (const int64_t[]){x->stride[axis], y->stride[axis]});
    return loop;
}

static int64_t align(int64_t bytes) { return eb_ceil_div(bytes, ALIGNED) * ALIGNED; }

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ARGSORT_X);
    const int axis = (int)node->ints[EB_INT_ARGSORT_AXIS];
    const int64_t count = x->shape[axis], wanted = node->ints[EB_INT_ARGSORT_COUNT], wide = eb_element_size(x->dtype) == 8;
    tiling *t = edit_tiling(node);
    if (count > UINT32_MAX) return EB_NOT_APPLICABLE;
    t->lines = lines_of(node).count;
    if (!t->lines || !wanted) return EB_OK;
    const int is_row = x->stride[axis] == 1 || count == 1;
    t->group = is_row && count >= SHORTEST ? 1 : eb_min(LINES, t->lines);
    t->groups = eb_max(1, EB_REFERENCE_TILE / (t->group * count));
    t->keys = align(t->group * count * (wide ? 8 : 4));
    t->entries = align(eb_max(room_of(count, wanted), groups_of(count, wanted)) * (wide ? 16 : 8));
    t->least = align(groups_of(count, wanted) * (wide ? 8 : 4));
    t->places = is_row ? 0 : align(t->group * wanted * 8);
    node->scratch_bytes = t->keys + t->least + 2 * t->entries + t->places;
    node->tiles = eb_ceil_div(t->lines, t->group * t->groups);
    return EB_OK;
}

#define WRITE_FIRST(width, key)                                                                                        \
    static void write_first_##width(const tiling *t, const char *keys, int64_t count, int64_t wanted, char *scratch,   \
                                    int64_t *to, int64_t step) {                                                       \
        void *least = scratch, *entries = scratch + t->least, *other = scratch + t->least + t->entries;                \
        const __typeof__(entry_##width(0, 0)) *order =                                                                 \
            first_##width((const key *)keys, count, wanted, least, entries, other);                                    \
        for (int64_t j = 0; j < wanted; j++) to[j * step] = place_##width(order[j]);                                   \
    }
WRITE_FIRST(64, int32_t)
WRITE_FIRST(128, int64_t)

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *x = eb_input(node, EB_IN_ARGSORT_X), *y = eb_output(node);
    const int axis = (int)node->ints[EB_INT_ARGSORT_AXIS], flip = node->ints[EB_INT_ARGSORT_DESCENDING] ? -1 : 0;
    const int64_t count = x->shape[axis], wanted = node->ints[EB_INT_ARGSORT_COUNT];
    const int64_t wide = eb_element_size(x->dtype) == 8, step = y->stride[axis];
    const tiling *t = tiling_of(node);
    const eb_loop loop = lines_of(node);
    char *keys = scratch, *buffers = keys + t->keys;
    int64_t *places = (int64_t *)(buffers + t->least + 2 * t->entries), *target = eb_data(y, bases);
    const int64_t last = eb_min(t->lines, end * t->groups * t->group);
    eb_cursor at;
    eb_cursor_seek(&loop, &at, begin * t->groups * t->group);
    for (int64_t line = begin * t->groups * t->group; line < last;) {
        int64_t from[LINES], to[LINES], lines = 0;
        for (; lines < t->group && line < last; lines++, line++) {
            from[lines] = at.offset[0], to[lines] = at.offset[1];
            eb_cursor_advance(&loop, &at, 1);
        }
        loaders[x->dtype](eb_data(x, bases), from, lines, x->stride[axis], count, flip, keys);
        for (int64_t l = 0; l < lines; l++) {
            int64_t *result = t->places ? places + l * wanted : target + to[l];
            if (wide)
                write_first_128(t, keys + l * count * 8, count, wanted, buffers, result, t->places ? 1 : step);
            else
                write_first_64(t, keys + l * count * 4, count, wanted, buffers, result, t->places ? 1 : step);
        }
        for (int64_t j = 0; j < wanted && t->places; j++)
            for (int64_t l = 0; l < lines; l++) target[to[l] + j * step] = places[l * wanted + j];
    }
    return EB_OK;
}
const eb_kernel any_argsort__generic_radix = {plan, run};
