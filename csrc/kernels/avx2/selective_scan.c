#include "isa.h"
#include "../vector/selective_scan.h"
