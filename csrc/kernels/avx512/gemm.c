#include "isa.h"
#include "../vector/micro.h"
