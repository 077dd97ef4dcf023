#include "isa.h"
#include "../vector/cast.h"
