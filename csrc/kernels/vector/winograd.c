/* Winograd convolutions with a weight of floats: winograd.h. */
enum { WINOGRAD_BFLOAT = 0 };

#include "winograd.h"

EB_WINOGRAD(2, EB_SYMBOL(conv, winograd2), "winograd2")
EB_WINOGRAD(4, EB_SYMBOL(conv, winograd4), "winograd4")
