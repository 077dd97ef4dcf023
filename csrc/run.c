/* The registry of kernels and the execution of a plan on one thread; pool.c executes it on several. */
#include "engine.h"

#include <string.h>

#include "clock.h"
#include "isa_table.h"
#include "iterate.h"
#include "pool.h"

#define EB_KERNEL(dtype, op, isa, variant) extern const eb_kernel dtype##_##op##__##isa##_##variant;
#include "kernels.inc"
#undef EB_KERNEL

static const eb_kernel *const kernels[] = {
#define EB_KERNEL(dtype, op, isa, variant) &dtype##_##op##__##isa##_##variant,
#include "kernels.inc"
#undef EB_KERNEL
};

static const eb_kernel_info infos[] = {
#define EB_KERNEL(dtype, op, isa, variant) \
    {#dtype "_" #op "__" #isa "_" #variant, #dtype, #op, #isa, #variant, 0},
#include "kernels.inc"
#undef EB_KERNEL
};

enum { KERNELS = sizeof kernels / sizeof kernels[0] };

int32_t eb_kernel_count(void) { return KERNELS; }

eb_kernel_info eb_kernel_describe(int32_t kernel) {
    eb_kernel_info info = infos[kernel];
    info.transforms = kernels[kernel]->transforms;
    return info;
}

/* Whether an operand has fewer than EB_MOST_BYTES bytes; of one without elements, whether it would have them if its axes
 * of size 0 had size 1. So no kernel needs to check products of sizes of one operand. */
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
    if (!has_bounded_operands(node)) return EB_NOT_APPLICABLE;
    eb_status status = kernels[node->kernel]->plan(node);
    if (status == EB_OK && node->tiles == 0 && node->joins == 0) node->scratch_bytes = node->shared_bytes = 0;
    if (status == EB_OK && !is_feasible(node)) status = EB_NOT_APPLICABLE;
    if (status != EB_OK) clear_plan(node);
    node->scratch_bytes = (node->scratch_bytes + 63) / 64 * 64; /* each thread's share starts on a cache line */
    node->shared_bytes = (node->shared_bytes + 63) / 64 * 64;
    return status;
}

int64_t eb_packed_bytes(const eb_node *node, int32_t input) {
    const eb_kernel *kernel = kernels[node->kernel];
    const eb_tensor *weight = eb_input(node, input);
    if (!kernel->packed_bytes || weight->dtype < 0 || !has_bounded_operands(node)) return 0;
    const int64_t bytes = kernel->packed_bytes(node, input);
    const int is_feasible = bytes > 0 && bytes < EB_MOST_BYTES;
    return is_feasible && eb_is_proportionate(bytes, eb_size(weight) * eb_element_size(weight->dtype)) ? bytes : 0;
}

void eb_pack(const eb_node *node, int32_t input, const void *source, void *destination) {
    kernels[node->kernel]->pack(node, input, source, destination);
}

/* Run nodes[first..last) in order on the calling thread. Each reading of the clock ends one node and starts the next, so
 * the times of the nodes sum to that of the run. */
static eb_status run_alone(const eb_node *nodes, int32_t first, int32_t last, void *const *bases, int64_t start,
                           eb_profile *profile, int32_t *failed) {
    for (int32_t i = first; i < last; i++) {
        const eb_node *node = &nodes[i];
        eb_status status = EB_OK;
        if (node->tiles > 0) {
            void *scratch = node->scratch_bytes ? (char *)bases[node->scratch_buffer] + node->scratch_offset : NULL;
            status = kernels[node->kernel]->run(node, bases, 0, node->tiles + node->joins, scratch);
        }
        if (profile) {
            int64_t end = eb_ticks();
            profile->busy[i] += end - start;
            start = end;
        }
        if (status != EB_OK) {
            if (failed) *failed = i;
            return status;
        }
    }
    return EB_OK;
}

/* Whether any of nodes[first..last) can be divided among threads. Waking worker threads for nothing costs
 * microseconds. */
static int can_share(const eb_node *nodes, int32_t first, int32_t last) {
    for (int32_t i = first; i < last; i++)
        if (nodes[i].tiles > 1) return 1;
    return 0;
}

eb_status eb_run(const eb_node *nodes, int32_t first, int32_t last, void *const *bases, int32_t threads,
                 eb_profile *profile, int32_t *failed) {
    if (profile) eb_clock_prepare();
    int64_t start = profile ? eb_ticks() : 0;
    eb_status status;
    if (threads > 1 && can_share(nodes, first, last) && eb_pool_borrow(threads - 1)) {
        status = eb_pool_run(kernels, nodes, first, last, bases, profile, failed);
        eb_pool_return();
    } else {
        status = run_alone(nodes, first, last, bases, start, profile, failed);
    }
    if (profile) profile->wall = eb_ticks() - start;
    return status;
}
