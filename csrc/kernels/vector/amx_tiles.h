/* Tiles of AMX: 16 rows of 16 groups of 4 bytes. */
#ifndef EB_AMX_TILES_H
#define EB_AMX_TILES_H

#include <immintrin.h>
#include <stdint.h>

/* MULTIPLY_TILES(sum, x, b): tiles have numbers from 0 to 7. */
#if defined(__AMX_INT8__) || defined(__AMXINT8__) /* gcc, clang */
#define MULTIPLY_TILES _tile_dpbsud
#else
#define MULTIPLY_TILES _tile_dpbf16ps
#endif

enum { TILE = 16, GROUP_BYTES = 4 }; /* rows, columns and groups of a tile */

/* What ldtilecfg reads. */
typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Sums are tiles 0 to 3, row by row; x is in 4 and 5, the panel in 6 and 7. */
static void configure_tiles(int64_t upper, int64_t lower) {
    enum { WIDTH = TILE * GROUP_BYTES };
    const uint8_t u = (uint8_t)upper, l = (uint8_t)lower;
    const uint16_t w = lower ? WIDTH : 0;
    const tile_config config = {.palette = 1,
                                .row_bytes = {WIDTH, WIDTH, w, w, WIDTH, w, WIDTH, WIDTH},
                                .rows = {u, u, l, l, u, l, TILE, TILE}};
    __asm__ volatile("" : : "r"(&config) : "memory"); /* gcc 12 believes that only its first 8 bytes are read */
    _tile_loadconfig(&config);
}

#endif
