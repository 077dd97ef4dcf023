#include "isa.h"
#include "../vector/matmul.h"
