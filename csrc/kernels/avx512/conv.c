#include "isa.h"
#include "../vector/conv.h"
