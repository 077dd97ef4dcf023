#include "isa.h"
#include "../vector/scan.h"
