#include "isa.h"
#include "../vector/attention.h"
