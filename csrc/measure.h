/* Loops that measure.c times. Each instruction set has its own, written in kernels/vector/measure.c or kernels/<isa>/. */
#ifndef EB_MEASURE_H
#define EB_MEASURE_H

#include <stdint.h>

/* Constraint of a vector register in inline assembly. */
#if defined(__aarch64__)
#define EB_REGISTER(v) "w"(v)
#elif defined(__x86_64__)
#define EB_REGISTER(v) "v"(v)
#else
#define EB_REGISTER(v) "m"(v)
#endif

/* One of the functions; the others are NULL. Each answers how many operations or bytes it did. */
typedef struct {
    const char *what, *isa;
    double (*compute)(int64_t rounds, float *sink);                     /* *sink is what is multiplied */
    double (*read)(const void *data, int64_t bytes, int64_t total);     /* `total` bytes in all */
    double (*copy)(void *to, const void *from, int64_t bytes);
    double per_instruction; /* operations or bytes of one vector instruction, or of the row of a tile that takes a cycle */
} eb_roof_loop;

#endif
