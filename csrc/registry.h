/* The kernels of the registry, by their numbers: for what plans nodes and for what runs them. */
#ifndef EB_REGISTRY_H
#define EB_REGISTRY_H

#include "engine.h"

extern const eb_kernel *const eb_kernels[];

#endif
