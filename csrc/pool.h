/* The process's one pool of threads. Used by run.c alone. */
#ifndef EB_POOL_H
#define EB_POOL_H

#include "engine.h"

/* Borrow the pool with up to `helpers` threads beside the caller, made on first use. Answers how many help: 0 when
 * another run holds the pool or threads cannot be made; then there is nothing to return. */
int eb_pool_borrow(int helpers);
void eb_pool_return(void);

/* Run every tile of `node` with the borrowed threads and the caller. Thread t uses the t-th share of the scratch. */
eb_status eb_pool_run(const eb_kernel *kernel, const eb_node *node, void *const *bases);

#endif
