/* Reference of argsort: a stable merge sort of (key, place) pairs; where few of many are wanted, a heap selects them. */
#include "../ops.h"
#include "element.h"

typedef struct {
    int64_t key, place;
} entry;

enum { HEAP_SHARE = 8 }; /* a heap pays where at most one element of so many is wanted */

static int uses_heap(const eb_node *node, int64_t size) {
    return node->ints[EB_INT_ARGSORT_COUNT] <= size / HEAP_SHARE;
}

/* Sorting happens in scratch: the elements (or those wanted, with a heap) twice. */
static eb_status plan_argsort(eb_node *node) {
    const eb_tensor *x = eb_input(node, EB_IN_ARGSORT_X);
    int axis = (int)node->ints[EB_INT_ARGSORT_AXIS];
    int64_t size = x->shape[axis], lines = size ? eb_lines(x, axis) : 0;
    int64_t held = uses_heap(node, size) ? node->ints[EB_INT_ARGSORT_COUNT] : size;
    node->tiles = node->ints[EB_INT_ARGSORT_COUNT] ? eb_tile_count(lines, size) : 0;
    node->scratch_bytes = 2 * eb_max(held, 1) * (int64_t)sizeof(entry);
    return EB_OK;
}

/* An integer that orders as the element does: NaN last, both zeros alike. */
static int64_t key_of(const eb_tensor *x, const void *data, int64_t at, int descending) {
    int64_t key;
    if (eb_is_real(x->dtype)) {
        double value = eb_load_real(x->dtype, data, at) + 0.0; /* -0 becomes 0 */
        memcpy(&key, &value, sizeof key);
        if (key < 0) key ^= INT64_MAX;
        if (isnan(value)) key = INT64_MAX;
    } else {
        key = eb_load_int(x->dtype, data, at);
    }
    return descending ? ~key : key;
}

static int before(entry a, entry b) { return a.key != b.key ? a.key < b.key : a.place < b.place; }

static void merge(const entry *from, entry *to, int64_t first, int64_t middle, int64_t last) {
    int64_t a = first, b = middle;
    for (int64_t i = first; i < last; i++) {
        int left = a < middle && (b == last || !before(from[b], from[a]));
        to[i] = left ? from[a++] : from[b++];
    }
}

/* The sorted entries, in one of the two buffers. */
static const entry *sorted(entry *entries, entry *other, int64_t count) {
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t first = 0; first < count; first += 2 * width)
            merge(entries, other, first, eb_min(first + width, count), eb_min(first + 2 * width, count));
        entry *swapped = entries;
        entries = other, other = swapped;
    }
    return entries;
}

/* Restore a heap, the last of all in front, below `at`. */
static void sift_down(entry *heap, int64_t count, int64_t at) {
    for (;;) {
        int64_t last = at;
        for (int64_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
            if (before(heap[last], heap[child])) last = child;
        if (last == at) return;
        entry moved = heap[at];
        heap[at] = heap[last], heap[last] = moved;
        at = last;
    }
}

/* The first `wanted` entries of a line of `size` elements from `start` on, in any order; how many `entries` holds. */
static int64_t select_first(const eb_node *node, const void *data, int64_t start, int64_t size, entry *entries) {
    const eb_tensor *x = eb_input(node, EB_IN_ARGSORT_X);
    int64_t step = x->stride[node->ints[EB_INT_ARGSORT_AXIS]];
    int64_t held = uses_heap(node, size) ? node->ints[EB_INT_ARGSORT_COUNT] : size;
    int descending = node->ints[EB_INT_ARGSORT_DESCENDING] != 0;
    for (int64_t i = 0; i < held; i++) entries[i] = (entry){key_of(x, data, start + i * step, descending), i};
    if (held == size) return held;
    for (int64_t i = held / 2 - 1; i >= 0; i--) sift_down(entries, held, i);
    for (int64_t i = held; i < size; i++) {
        entry next = {key_of(x, data, start + i * step, descending), i};
        if (!before(next, entries[0])) continue;
        entries[0] = next;
        sift_down(entries, held, 0);
    }
    return held;
}

static eb_status run_argsort(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const eb_tensor *x = eb_input(node, EB_IN_ARGSORT_X), *y = eb_output(node);
    int axis = (int)node->ints[EB_INT_ARGSORT_AXIS];
    int64_t size = x->shape[axis], lines = eb_lines(x, axis), count = node->ints[EB_INT_ARGSORT_COUNT];
    for (int64_t i = eb_piece(lines, node->tiles, begin); i < eb_piece(lines, node->tiles, end); i++) {
        int64_t at[EB_MAX_RANK];
        eb_line_start(x, axis, i, at);
        entry *entries = scratch;
        int64_t held = select_first(node, eb_data(x, bases), eb_offset_at(x, at), size, entries);
        const entry *order = sorted(entries, entries + held, held);
        int64_t *target = (int64_t *)eb_data(y, bases) + eb_offset_at(y, at);
        for (int64_t j = 0; j < count; j++) target[j * y->stride[axis]] = order[j].place;
    }
    return EB_OK;
}
const eb_kernel any_argsort__generic_reference = {plan_argsort, run_argsort};
