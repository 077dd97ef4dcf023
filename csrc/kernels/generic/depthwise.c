#include "isa.h"
#include "../vector/depthwise.h"
