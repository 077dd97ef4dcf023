#include "isa.h"
#include "../vector/unfold.h"
