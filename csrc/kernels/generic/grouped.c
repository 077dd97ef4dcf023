#include "isa.h"
#include "../vector/grouped.h"
