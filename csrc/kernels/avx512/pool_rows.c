#include "isa.h"
#include "../vector/pool_rows.h"
