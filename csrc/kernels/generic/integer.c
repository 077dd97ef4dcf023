#include "isa.h"
#include "../vector/integer.h"
