/* The same by tiles of AMX (amx.h). */
#define EB_AMX 1
#define EB_VL 16
#define EB_MR 32
#define EB_FLOAT_ISA avx512
#include "../vector/linear_bfloat.c"
