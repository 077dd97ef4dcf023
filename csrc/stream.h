/* Stores past the caches. A result of EB_STREAM_BYTES is not in a cache any longer when somebody reads it (measured beside
 * a last level of 32 MiB). An ordinary store would first read the line that it overwrites: one stream in three of a sum,
 * one in two of a fill. */
#ifndef EB_STREAM_H
#define EB_STREAM_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { EB_STREAM_BYTES = 32 << 20 };

/* Whoever streams ends with this, before another thread may read. */
static inline void eb_stream_end(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* Copy `bytes`, any alignment; `from` is best in the first-level cache. The two do not overlap. */
static inline void eb_stream(void *to, const void *from, int64_t bytes) {
    char *y = to;
    const char *x = from;
#if defined(__SSE2__)
    int64_t head = -(uintptr_t)y & 63;
    if (head > bytes) head = bytes;
    memcpy(y, x, (size_t)head);
    y += head, x += head, bytes -= head;
    for (; bytes >= 64; bytes -= 64, y += 64, x += 64) { /* whole lines, which are then written out at once */
        __m128i a = _mm_loadu_si128((const __m128i *)x), b = _mm_loadu_si128((const __m128i *)x + 1);
        __m128i c = _mm_loadu_si128((const __m128i *)x + 2), d = _mm_loadu_si128((const __m128i *)x + 3);
        _mm_stream_si128((__m128i *)y, a);
        _mm_stream_si128((__m128i *)y + 1, b);
        _mm_stream_si128((__m128i *)y + 2, c);
        _mm_stream_si128((__m128i *)y + 3, d);
    }
#endif
    memcpy(y, x, (size_t)bytes);
}

#endif
