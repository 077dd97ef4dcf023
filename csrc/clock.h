/* The cheapest clock that counts at one rate on all cores: for profiles and for deciding that somebody is late. */
#ifndef EB_CLOCK_H
#define EB_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t eb_nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Set once, before the first tick is read (eb_clock_prepare). */
extern int eb_clock_is_counter;

/* A reading; differences times eb_tick_seconds() are seconds. */
static inline int64_t eb_ticks(void) {
#if defined(__x86_64__) || defined(__i386__)
    if (eb_clock_is_counter) return (int64_t)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    if (eb_clock_is_counter) {
        int64_t count;
        __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
        return count;
    }
#endif
    return eb_nanoseconds();
}

/* Choose the clock and learn its rate (a few milliseconds, the first time only). */
void eb_clock_prepare(void);

#endif
