/* 512-bit vectors, 32 registers: 14 x 32 keeps 28 sums, 2 of b and 1 of x in registers. */
#define EB_VL 16
#define EB_MR 14
