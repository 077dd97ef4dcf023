/* Which clock this machine's ticks come from, and their length. */
#include "clock.h"

#include <pthread.h>

#include "engine.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

enum { CALIBRATION_NANOSECONDS = 4000000 }; /* two clock readings of under 100 ns each: the rate is good to 1e-4 */

int eb_clock_is_counter;
static double tick_seconds = 1e-9;
static const char *name = "clock_gettime";
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__) || defined(__i386__)
static int counter_is_invariant(void) {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d >> 8 & 1);
}

static void prepare(void) {
    if (!counter_is_invariant()) return;
    int64_t from = eb_nanoseconds(), first = (int64_t)__builtin_ia32_rdtsc(), to;
    do to = eb_nanoseconds();
    while (to - from < CALIBRATION_NANOSECONDS);
    int64_t ticks = (int64_t)__builtin_ia32_rdtsc() - first;
    if (ticks <= 0) return;
    tick_seconds = 1e-9 * (double)(to - from) / (double)ticks;
    name = "rdtsc";
    eb_clock_is_counter = 1;
}
#elif defined(__aarch64__)
static void prepare(void) {
    int64_t rate;
    __asm__ volatile("mrs %0, cntfrq_el0" : "=r"(rate));
    if (rate <= 0) return;
    tick_seconds = 1.0 / (double)rate;
    name = "cntvct";
    eb_clock_is_counter = 1;
}
#else
static void prepare(void) {}
#endif

void eb_clock_prepare(void) { pthread_once(&once, prepare); }

double eb_tick_seconds(void) {
    eb_clock_prepare();
    return tick_seconds;
}

const char *eb_clock(void) {
    eb_clock_prepare();
    return name;
}
