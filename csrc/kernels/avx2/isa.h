/* 256-bit vectors, 16 registers: 6 x 16 keeps 12 sums, 2 of b and 1 of x in registers. */
#define EB_VL 8
#define EB_MR 6
