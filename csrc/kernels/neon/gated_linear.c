#include "isa.h"
#include "../vector/gated_linear.h"
