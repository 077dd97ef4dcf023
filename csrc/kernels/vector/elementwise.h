/* The loops of casts (elementwise.c), which programs of pointwise ops call for their blocks. */
#ifndef EB_ELEMENTWISE_H
#define EB_ELEMENTWISE_H

#include "vec.h"

/* `count` times the element of `size` bytes at `value`. */
static inline void eb_fill(void *to, const void *value, int64_t count, int64_t size) {
#define EB_FILL(bytes, type)                                         \
    case bytes: {                                                    \
        type one;                                                    \
        memcpy(&one, value, bytes);                                  \
        for (int64_t i = 0; i < count; i++) ((type *)to)[i] = one;   \
        break;                                                       \
    }
    switch (size) {
        EB_FILL(1, uint8_t)
        EB_FILL(2, uint16_t)
        EB_FILL(4, uint32_t)
        EB_FILL(8, uint64_t)
    }
}

enum { EB_TYPES = EB_BOOL + 1 };

/* y of count elements of a, b, c; input 0 is x, a or the condition; b and c are not read where the op has fewer, and may
 * be NULL there. EB_OK, or EB_DIVISION_BY_ZERO. */
typedef eb_status (*element_function)(void *y, const void *a, const void *b, const void *c, int64_t count);

/* By the element types from and to. */
#define eb_casts EB_PASTE(eb_casts, _, EB_ISA, , , )
extern const element_function eb_casts[EB_TYPES][EB_TYPES];

#endif
