/* The registry and the dispatch loop. Knows kernels by their four functions only; the threads are pool.c's. */
#include "engine.h"

#include <string.h>
#include <time.h>

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
    {#dtype "_" #op "__" #isa "_" #variant, #dtype, #op, #isa, #variant},
#include "kernels.inc"
#undef EB_KERNEL
};

enum { KERNELS = sizeof kernels / sizeof kernels[0] };

int32_t eb_kernel_count(void) { return KERNELS; }

eb_kernel_info eb_kernel_describe(int32_t kernel) { return infos[kernel]; }

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
    node->tiles = 0;
    node->scratch_bytes = 0;
    memset(node->private, 0, sizeof node->private);
    eb_status status = kernels[node->kernel]->plan(node);
    node->scratch_bytes = (node->scratch_bytes + 63) / 64 * 64; /* each thread's share starts on a cache line */
    return status;
}

int64_t eb_packed_bytes(const eb_node *node, int32_t input) {
    const eb_kernel *kernel = kernels[node->kernel];
    return kernel->packed_bytes ? kernel->packed_bytes(node, input) : 0;
}

void eb_pack(const eb_node *node, int32_t input, const void *source, void *destination) {
    kernels[node->kernel]->pack(node, input, source, destination);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

eb_status eb_run(const eb_node *nodes, int32_t first, int32_t last, void *const *bases, int32_t threads,
                 double *seconds, int32_t *failed) {
    int helpers = threads > 1 ? eb_pool_borrow(threads - 1) : 0;
    eb_status status = EB_OK;
    for (int32_t i = first; i < last && status == EB_OK; i++) {
        const eb_node *node = &nodes[i];
        const eb_kernel *kernel = kernels[node->kernel];
        double start = seconds ? now() : 0;
        if (helpers && node->tiles > 1) {
            status = eb_pool_run(kernel, node, bases);
        } else if (node->tiles > 0) {
            void *scratch = node->scratch_bytes ? (char *)bases[node->scratch_buffer] + node->scratch_offset : NULL;
            status = kernel->run(node, bases, 0, node->tiles, scratch);
        }
        if (seconds) seconds[i] = now() - start;
        if (status != EB_OK && failed) *failed = i;
    }
    if (helpers) eb_pool_return();
    return status;
}
