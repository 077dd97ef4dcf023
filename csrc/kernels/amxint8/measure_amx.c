#include "../vector/measure_amx.h"

static double compute(int64_t rounds, float *sink) { return (void)sink, compute_tiles(rounds, 1); }

const eb_roof_loop eb_bytes_amxint8 = {"int8", "amxint8", .compute = compute, .per_instruction = TILE_ROW_OPERATIONS};
