#include "isa.h"
#include "../vector/pointwise.h"
