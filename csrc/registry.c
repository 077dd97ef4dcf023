/* The registry of kernels: the types of operands that they accept, how they plan a node, and the weights that they pack. */
#include "registry.h"

#include <string.h>

#include "isa_table.h"
#include "iterate.h"
#include "ops.h"

/* --- encodings ---------------------------------------------------------------------------------------------------- */

#define ROW(name, stored, bits, low, high, per, group, scale, zero) ENCODING_##name,
enum { ENCODING_ANY = -1, EB_ENCODINGS(ROW) ENCODINGS };
#undef ROW

#define ROW(name, ...) {#name, __VA_ARGS__},
static const eb_encoding encodings[] = {EB_ENCODINGS(ROW)};
#undef ROW

int32_t eb_encoding_count(void) { return ENCODINGS; }

eb_encoding eb_encoding_describe(int32_t encoding) { return encodings[encoding]; }

int64_t eb_decoded_size(const eb_tensor *t, int axis) {
    const int64_t in_one = encodings[t->encoding].bits == 4 && axis == t->axis ? 2 : 1;
    return eb_multiply(t->shape[axis], in_one);
}

/* Whether `part`, scales or zero points of type `dtype`, has a number for each block of `t`. */
static int fits_blocks(const eb_encoding *how, const eb_tensor *t, const eb_tensor *part, int32_t dtype) {
    if (part->dtype != dtype || part->encoding != ENCODING_plain) return 0;
    if (how->per == EB_PER_TENSOR) return part->rank == 0;
    if (t->axis < 0 || t->axis >= t->rank) return 0;
    if (how->per == EB_PER_CHANNEL) return part->rank == 1 && part->shape[0] == eb_decoded_size(t, t->axis);
    if (part->rank != t->rank) return 0;
    for (int axis = 0; axis < t->rank; axis++)
        if (eb_multiply(part->shape[axis], axis == t->axis ? how->group : 1) != eb_decoded_size(t, axis)) return 0;
    return 1;
}

/* Whether the encoded operands of a node have the data, scales and zero points that their encodings demand. */
static int has_parts(const eb_node *node) {
    for (int i = 0; i < node->n_inputs; i++) {
        const eb_tensor *t = &node->operands[i];
        const eb_encoding *how = &encodings[t->encoding];
        if (t->dtype < 0 || t->encoding == ENCODING_plain) continue;
        const int has_zero = how->zero == EB_ZERO_INTEGER || how->zero == EB_ZERO_MINIMUM;
        if (t->dtype != how->stored) return 0;
        if (how->per == EB_PER_ELEMENT) continue;
        if (t->parts < 1 || t->parts + has_zero >= node->n_inputs) return 0;
        if (!fits_blocks(how, t, &node->operands[t->parts], how->scale)) return 0;
        const int32_t zero = how->zero == EB_ZERO_INTEGER ? EB_I8 : how->scale;
        if (has_zero && !fits_blocks(how, t, &node->operands[t->parts + 1], zero)) return 0;
    }
    return 1;
}

/* --- types of operands -------------------------------------------------------------------------------------------- */

enum { EB_ANY = -1, EB_COMPUTE_ANY = -1 };

typedef struct {
    const char *name;
    int32_t element, encoding, compute; /* see signatures.inc */
} signature;

#define EB_SIGNATURE(name, element, encoding, compute) SIGNATURE_##name,
enum {
#include "signatures.inc"
    SIGNATURES
};
#undef EB_SIGNATURE

#define EB_SIGNATURE(name, element, encoding, compute) {#name, EB_##element, ENCODING_##encoding, EB_COMPUTE_##compute},
static const signature signatures[SIGNATURES] = {
#include "signatures.inc"
};
#undef EB_SIGNATURE

static int accepts(const signature *s, int32_t encoding, int32_t compute) {
    const int reads = encoding == ENCODING_plain || s->encoding == ENCODING_ANY || s->encoding == encoding;
    return reads && (s->compute == EB_COMPUTE_ANY || s->compute == compute);
}

static int is_floating(int32_t dtype) { return dtype >= EB_F32 && dtype <= EB_BF16; }

/* Whether the operands of a node have the types of a signature. Scales and zero points belong to the encoding. */
static int fits(const signature *s, const eb_node *node, int32_t compute) {
    int encoded = 0, parts = node->n_inputs, elements = s->element == EB_ANY;
    for (int i = 0; i < node->n_inputs; i++)
        if (node->operands[i].dtype >= 0 && node->operands[i].encoding != ENCODING_plain) {
            if (!accepts(s, node->operands[i].encoding, compute)) return 0;
            if (node->operands[i].parts) parts = (int)eb_min(parts, node->operands[i].parts);
            encoded = 1;
        }
    if (!accepts(s, ENCODING_plain, compute) || (!encoded && s->encoding > ENCODING_plain)) return 0;
    if (s->element != EB_ANY && !is_floating(s->element)) return node->operands[0].dtype == s->element;
    for (int i = 0; i < node->n_inputs + node->n_outputs && s->element != EB_ANY; i++) {
        const eb_tensor *t = &node->operands[i];
        if ((i >= parts && i < node->n_inputs) || t->encoding != ENCODING_plain || !is_floating(t->dtype)) continue;
        if (t->dtype != s->element) return 0;
        elements = 1;
    }
    return elements;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

#define EB_KERNEL(types, op, isa, variant, share) extern const eb_kernel types##_##op##__##isa##_##variant;
#include "kernels.inc"
#undef EB_KERNEL

const eb_kernel *const eb_kernels[] = {
#define EB_KERNEL(types, op, isa, variant, share) &types##_##op##__##isa##_##variant,
#include "kernels.inc"
#undef EB_KERNEL
};

static const eb_kernel_info infos[] = {
#define EB_KERNEL(types, op, isa, variant, share) \
    {#types "_" #op "__" #isa "_" #variant, #types, #op, #isa, #variant, share, 0},
#include "kernels.inc"
#undef EB_KERNEL
};

/* What the nodes of a kernel must have. */
static const struct {
    int8_t signature;
    int8_t compute; /* position of the attribute `compute` among their ints; -1: the op has none */
} demands[] = {
#define EB_KERNEL(types, op, isa, variant, share) {SIGNATURE_##types, EB_COMPUTE_OF_##op},
#include "kernels.inc"
#undef EB_KERNEL
};

enum { KERNELS = sizeof eb_kernels / sizeof eb_kernels[0] };

int32_t eb_kernel_count(void) { return KERNELS; }

eb_kernel_info eb_kernel_describe(int32_t kernel) {
    eb_kernel_info info = infos[kernel];
    info.transforms = eb_kernels[kernel]->transforms;
    return info;
}

int32_t eb_kernel_accepts(int32_t kernel, int32_t encoding, int32_t compute) {
    return accepts(&signatures[demands[kernel].signature], encoding, compute);
}

static int has_types_of_kernel(const eb_node *node) {
    const int at = demands[node->kernel].compute;
    return has_parts(node) && fits(&signatures[demands[node->kernel].signature], node,
                                   at < 0 ? EB_COMPUTE_ELEMENT : (int32_t)node->ints[at]);
}

/* --- planning and packing ----------------------------------------------------------------------------------------- */

/* Whether an operand has fewer than EB_MOST_BYTES bytes, where axes of size 0 count as size 1. So no kernel needs to check
 * products of sizes of one operand. */
static int has_bounded_sizes(const eb_tensor *t) {
    int64_t bytes = t->dtype < 0 ? 0 : eb_element_size(t->dtype);
    for (int axis = 0; axis < t->rank && t->dtype >= 0; axis++) {
        if (t->shape[axis] < 0) return 0;
        bytes = eb_multiply(bytes, eb_max(1, t->shape[axis]));
    }
    return bytes < EB_MOST_BYTES;
}

static int has_bounded_operands(const eb_node *node) {
    for (int i = 0; i < node->n_inputs + node->n_outputs; i++)
        if (!has_bounded_sizes(&node->operands[i])) return 0;
    return 1;
}

/* Whether the numbers that a kernel planned can be run. */
static int is_feasible(const eb_node *node) {
    const int64_t numbers[] = {node->tiles, node->joins, node->scratch_bytes, node->shared_bytes, node->operations};
    for (int i = 0; i < 5; i++)
        if (numbers[i] < 0 || numbers[i] >= EB_SATURATED) return 0;
    const int64_t memory = eb_add(eb_multiply(node->scratch_bytes, EB_MOST_THREADS), node->shared_bytes);
    if (node->tiles + node->joins >= EB_MOST_TILES || memory >= EB_MOST_BYTES) return 0;
    return eb_is_proportionate(node->scratch_bytes + node->shared_bytes, eb_operand_bytes(node));
}

static void clear_plan(eb_node *node) {
    node->tiles = node->joins = 0;
    node->scratch_bytes = node->shared_bytes = node->operations = 0;
}

eb_status eb_plan_node(eb_node *node) {
    clear_plan(node);
    memset(node->plan, 0, sizeof node->plan);
    if (!has_types_of_kernel(node) || !has_bounded_operands(node)) return EB_NOT_APPLICABLE;
    eb_status status = eb_kernels[node->kernel]->plan(node);
    if (status == EB_OK && node->tiles == 0 && node->joins == 0) node->scratch_bytes = node->shared_bytes = 0;
    if (status == EB_OK && !is_feasible(node)) status = EB_NOT_APPLICABLE;
    if (status != EB_OK) clear_plan(node);
    node->scratch_bytes = (node->scratch_bytes + 63) / 64 * 64; /* each thread's share starts on a cache line */
    node->shared_bytes = (node->shared_bytes + 63) / 64 * 64;
    return status;
}

/* The packing that a node's kernel wants an operand in, or NULL. */
static const eb_packing *find_packing(const eb_node *node, int32_t input, int64_t *numbers) {
    const eb_kernel *kernel = eb_kernels[node->kernel];
    memset(numbers, 0, sizeof((eb_layout *)0)->numbers);
    if (!kernel->packing || eb_input(node, input)->dtype < 0) return NULL;
    if (!has_types_of_kernel(node) || !has_bounded_operands(node)) return NULL;
    return kernel->packing(node, input, numbers);
}

eb_layout eb_layout_of(const eb_node *node, int32_t input) {
    eb_layout layout = {0};
    const eb_tensor *weight = eb_input(node, input);
    const eb_packing *packing = find_packing(node, input, layout.numbers);
    const int64_t bytes = packing ? packing->bytes(weight, layout.numbers) : 0;
    if (bytes <= 0 || bytes >= EB_MOST_BYTES) return (eb_layout){0};
    if (!eb_is_proportionate(bytes, eb_size(weight) * eb_element_size(weight->dtype))) return (eb_layout){0};
    layout.packing = packing->name;
    layout.bytes = bytes;
    layout.pieces = packing->pieces(weight, layout.numbers);
    layout.moves = packing->unpack != NULL;
    return layout;
}

void eb_pack(const eb_node *node, int32_t input, const void *source, void *destination, int64_t begin, int64_t end) {
    int64_t numbers[sizeof((eb_layout *)0)->numbers / sizeof(int64_t)];
    const eb_packing *packing = find_packing(node, input, numbers);
    if (packing) packing->pack(eb_input(node, input), numbers, source, destination, begin, end);
}

void eb_unpack(const eb_node *node, int32_t input, const void *packed, void *destination) {
    int64_t numbers[sizeof((eb_layout *)0)->numbers / sizeof(int64_t)];
    const eb_packing *packing = find_packing(node, input, numbers);
    if (packing && packing->unpack) packing->unpack(eb_input(node, input), numbers, packed, destination);
}
