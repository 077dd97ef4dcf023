/* The registry of kernels and the execution of a plan on one thread; pool.c executes it on several. */
#include "engine.h"

#include <string.h>

#include "clock.h"
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

int32_t eb_isa_mask(void) {
    int32_t mask = EB_ISA_GENERIC;
#if defined(__x86_64__) || defined(__i386__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) mask |= EB_ISA_AVX2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && (mask & EB_ISA_AVX2))
        mask |= EB_ISA_AVX512;
#elif defined(__aarch64__)
    mask |= EB_ISA_NEON;
#endif
    return mask;
}

eb_status eb_plan_node(eb_node *node) {
    node->tiles = node->joins = 0;
    node->scratch_bytes = node->shared_bytes = node->operations = 0;
    memset(node->private, 0, sizeof node->private);
    eb_status status = kernels[node->kernel]->plan(node);
    node->scratch_bytes = (node->scratch_bytes + 63) / 64 * 64; /* each thread's share starts on a cache line */
    node->shared_bytes = (node->shared_bytes + 63) / 64 * 64;
    return status;
}

int64_t eb_packed_bytes(const eb_node *node, int32_t input) {
    const eb_kernel *kernel = kernels[node->kernel];
    return kernel->packed_bytes ? kernel->packed_bytes(node, input) : 0;
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
