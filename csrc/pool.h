/* The process-wide pool of worker threads. run.c is its only user. */
#ifndef EB_POOL_H
#define EB_POOL_H

#include "engine.h"

/* Borrow the pool with up to `workers` worker threads beside the caller; they are created on first use. Returns the
 * number of workers that may take part: 0 if another run holds the pool or no thread can be created; then there is
 * nothing to return. */
int eb_pool_borrow(int workers);
void eb_pool_return(void);

/* Run nodes[first..last) on the borrowed workers and on the caller, which is thread 0. Thread t uses the t-th share of
 * a node's scratch. All threads compute with the caller's floating-point control state (rounding, subnormal numbers,
 * exceptions). `kernels` is the registry. `profile` and `failed` as for eb_run. */
eb_status eb_pool_run(const eb_kernel *const *kernels, const eb_node *nodes, int32_t first, int32_t last,
                      void *const *bases, eb_profile *profile, int32_t *failed);

#endif
