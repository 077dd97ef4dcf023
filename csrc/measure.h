/* Loops that measure.c times. Each instruction set has its own, written in kernels/vector/measure.c or kernels/<isa>/. */
#ifndef EB_MEASURE_H
#define EB_MEASURE_H

#include <stdint.h>

/* One of the functions; the others are NULL. Each answers how many operations or bytes it did. */
typedef struct {
    const char *what, *isa;
    double (*compute)(int64_t rounds, float *sink);                     /* *sink is what is multiplied */
    double (*read)(const void *data, int64_t bytes, int64_t total);     /* `total` bytes in all */
    double (*copy)(void *to, const void *from, int64_t bytes);
    double per_instruction; /* operations or bytes of one vector instruction */
} eb_roof_loop;

#endif
