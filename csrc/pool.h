/* The process's one pool of threads. Used by run.c alone. */
#ifndef EB_POOL_H
#define EB_POOL_H

#include "engine.h"

/* Borrow the pool with up to `helpers` threads beside the caller, made on first use. Answers how many may help: 0 when
 * another run holds the pool or threads cannot be made; then there is nothing to return. */
int eb_pool_borrow(int helpers);
void eb_pool_return(void);

/* Run nodes[first..last) with the borrowed threads and the caller, which is thread 0. Thread t uses the t-th share of a
 * node's scratch. `kernels` is the registry. `profile` and `failed` as for eb_run. */
eb_status eb_pool_run(const eb_kernel *const *kernels, const eb_node *nodes, int32_t first, int32_t last,
                      void *const *bases, eb_profile *profile, int32_t *failed);

#endif
