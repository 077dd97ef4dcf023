#include "isa.h"
#include "../vector/pooling.h"
