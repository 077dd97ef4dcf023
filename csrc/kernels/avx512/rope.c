#include "isa.h"
#include "../vector/rope.h"
