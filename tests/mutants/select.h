/* The fault that the environment selects: python -m tests.mutants. */
#pragma once
#include <stdlib.h>

static inline int eb_mutant(void) {
    static int selected = -1;
    if (selected < 0) {
        const char *const text = getenv("ENGINE_MUTANT");
        selected = text ? atoi(text) : 0;
    }
    return selected;
}
