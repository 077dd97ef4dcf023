#include "isa.h"
#include "../vector/resample.h"
