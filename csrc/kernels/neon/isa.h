/* 128-bit vectors, 32 registers: 12 x 8 keeps 24 sums, 2 of b and some of x in registers. */
#define EB_VL 4
#define EB_MR 12
