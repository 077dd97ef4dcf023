#include "isa.h"
#include "../vector/measure.h"
