#include "isa.h"
#include "../vector/expand_depthwise.h"
