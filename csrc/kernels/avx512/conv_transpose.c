#include "isa.h"
#include "../vector/conv_transpose.h"
