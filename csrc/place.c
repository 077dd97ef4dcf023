/* Resolves the addresses of operands and checks the memory accesses of every node, on the tables that eb_run executes. Knows
 * buffers and extents; knows no kernel. Shares no code with the memory planner. */
#include "engine.h"
#include "iterate.h"

/* Bytes [begin, end) of a buffer. */
typedef struct {
    int64_t begin, end;
} extent;

/* The bytes of `t` from its first to past its last element. Answers 0 for a type that is none, or where a number
 * overflows. A tensor without elements has no bytes. */
static int extent_of(const eb_tensor *t, extent *found) {
    if (t->dtype < 0 || t->dtype > EB_BOOL || t->rank < 0 || t->rank > EB_MAX_RANK || t->offset < 0) return 0;
    int64_t last = 0; /* element */
    *found = (extent){t->offset, t->offset};
    for (int axis = 0; axis < t->rank; axis++) {
        int64_t step;
        if (t->shape[axis] < 0 || t->stride[axis] < 0) return 0;
        if (t->shape[axis] == 0) return 1;
        if (__builtin_mul_overflow(t->shape[axis] - 1, t->stride[axis], &step)) return 0;
        if (__builtin_add_overflow(last, step, &last)) return 0;
    }
    int64_t bytes;
    if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(last, eb_element_size(t->dtype), &bytes)) return 0;
    return !__builtin_add_overflow(t->offset, bytes, &found->end);
}

/* Resolve one operand and check where it lies; answers what is wrong, or NULL. */
static const char *place_operand(const eb_memory *memory, eb_tensor *t, int is_output, extent *at) {
    if (!extent_of(t, at)) return "an operand with an invalid layout";
    if (t->buffer < 0) { /* a part of the arena */
        int64_t part = -1 - (int64_t)t->buffer;
        if (part >= memory->parts) return "an operand in a part of the arena that does not exist";
        if (at->end > memory->part_bytes[part]) return "an operand that reaches past its part of the arena";
        t->buffer = 0;
        t->offset += memory->part_offsets[part];
        at->begin += memory->part_offsets[part];
        at->end += memory->part_offsets[part];
    } else if (t->buffer == 0 || t->buffer >= memory->buffers) {
        return "an operand in a buffer that does not exist";
    } else if (is_output && t->buffer >= memory->first_constant) {
        return "a result in a constant";
    } else if (is_output && t->buffer <= memory->inputs) {
        return "a result in an input";
    }
    if (!t->is_packed && at->end > memory->bytes[t->buffer]) return "an operand that reaches past its buffer";
    return NULL;
}

static int overlaps(extent a, extent b) { return a.begin < b.end && b.begin < a.end; }

static const char *place_node(const eb_memory *memory, eb_node *node, int32_t number, int32_t threads) {
    int32_t operands = node->n_inputs + node->n_outputs;
    int64_t scratch;
    if (node->overlap < 0 || node->overlap > number) return "an overlap with nodes that do not exist";
    if (node->scratch_bytes < 0 || node->shared_bytes < 0 || node->scratch_offset < node->shared_bytes ||
        __builtin_mul_overflow(node->scratch_bytes, threads, &scratch) ||
        __builtin_add_overflow(scratch, node->scratch_offset, &scratch) || scratch > memory->bytes[0])
        return "working memory outside of the arena";
    extent working = {node->scratch_offset - node->shared_bytes, scratch};
    for (int32_t i = 0; i < operands; i++) {
        eb_tensor *t = &node->operands[i];
        extent at;
        if (t->dtype < 0) continue;
        const char *wrong = place_operand(memory, t, i >= node->n_inputs, &at);
        if (wrong) return wrong;
        if (t->is_packed && eb_layout_of(node, i).bytes > memory->bytes[t->buffer]) return "a packed operand that is too short";
        if (t->buffer == 0 && overlaps(at, working)) return "working memory overlaps an operand of the node";
    }
    return NULL;
}

int32_t eb_place_operands(eb_node *nodes, int32_t count, int32_t threads, const eb_memory *memory, const char **wrong) {
    for (int32_t i = 0; i < memory->parts; i++)
        if (memory->part_offsets[i] < 0 || memory->part_bytes[i] < 0 || memory->part_offsets[i] > memory->bytes[0] ||
            memory->part_bytes[i] > memory->bytes[0] - memory->part_offsets[i]) {
            *wrong = "a part that reaches past the arena";
            return 0;
        }
    for (int32_t i = 0; i < count; i++)
        if ((*wrong = place_node(memory, &nodes[i], i, threads))) return i;
    return -1;
}
