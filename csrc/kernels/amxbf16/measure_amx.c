#include "../vector/measure_amx.h"

static double compute(int64_t rounds, float *sink) { return (void)sink, compute_tiles(rounds, 2); }

const eb_roof_loop eb_dot_amxbf16 = {"bf16", "amxbf16", .compute = compute, .per_instruction = TILE_ROW_OPERATIONS / 2};
