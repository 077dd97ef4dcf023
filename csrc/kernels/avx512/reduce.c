#include "isa.h"
#include "../vector/reduce.h"
