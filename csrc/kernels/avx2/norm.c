#include "isa.h"
#include "../vector/norm.h"
