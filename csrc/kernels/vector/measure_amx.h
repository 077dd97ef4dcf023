/* The roof of products of tiles, from registers: four sums cover the latency of 52 cycles at one product in 16. */
#include "../../measure.h"
#include "amx_tiles.h"

enum { TILE_ROW_OPERATIONS = 2 * TILE * TILE * GROUP_BYTES }; /* on elements of one byte; a row takes a cycle */

/* Operations of `rounds` rounds on elements of `bytes` bytes; factors are zeros, which take as long as others. */
static double compute_tiles(int64_t rounds, int bytes) {
    configure_tiles(TILE, TILE);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (int64_t i = 0; i < rounds; i++) {
        MULTIPLY_TILES(0, 4, 6);
        MULTIPLY_TILES(1, 4, 7);
        MULTIPLY_TILES(2, 5, 6);
        MULTIPLY_TILES(3, 5, 7);
    }
    _tile_release();
    return 4.0 * TILE * TILE_ROW_OPERATIONS / bytes * (double)rounds;
}
