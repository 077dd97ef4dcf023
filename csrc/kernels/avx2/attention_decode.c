#include "isa.h"
#include "../vector/attention_decode.h"
