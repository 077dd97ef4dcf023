#include "isa.h"
#include "../vector/compare.h"
