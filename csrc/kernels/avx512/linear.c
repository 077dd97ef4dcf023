#include "isa.h"
#include "../vector/linear.h"
