#include "isa.h"
#include "../vector/winograd.h"
