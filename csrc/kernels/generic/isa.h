/* 128-bit vectors, 16 registers, no fused multiply-add: 4 x 8 keeps 8 sums, 2 of b and 1 of x in registers. */
#define EB_VL 4
#define EB_MR 4
