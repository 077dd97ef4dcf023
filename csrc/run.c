/* The execution of a plan on one thread; pool.c executes it on several. */
#include "clock.h"
#include "pool.h"
#include "registry.h"

/* Run nodes[first..last) in order on the calling thread. Each reading of the clock ends one node and starts the next, so
 * the times of the nodes sum to that of the run. */
static eb_status run_alone(const eb_node *nodes, int32_t first, int32_t last, void *const *bases, int64_t start,
                           eb_profile *profile, int32_t *failed) {
    for (int32_t i = first; i < last; i++) {
        const eb_node *node = &nodes[i];
        eb_status status = EB_OK;
        if (node->tiles > 0) {
            void *scratch = node->scratch_bytes ? (char *)bases[node->scratch_buffer] + node->scratch_offset : NULL;
            status = eb_kernels[node->kernel]->run(node, bases, 0, node->tiles + node->joins, scratch);
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
        status = eb_pool_run(eb_kernels, nodes, first, last, bases, profile, failed);
        eb_pool_return();
    } else {
        status = run_alone(nodes, first, last, bases, start, profile, failed);
    }
    if (profile) profile->wall = eb_ticks() - start;
    return status;
}
