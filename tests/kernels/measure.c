/* Roofs: that there are some, what is absent, and that the caller's processors are left alone. No time is asserted. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "case.h"
#include "suite.h"

static void check_roof(const char *what, int64_t bytes, int threads, int must_exist) {
    eb_roof found = eb_measure_roof(what, bytes, threads, 2e-3);
    int present = found.rate > 0 && found.clock > 0 && found.per_instruction > 0 && found.isa;
    int absent = found.rate == 0 && !found.isa;
    if (!present && !(absent && !must_exist)) fail("roof %s at %d threads: rate %g, clock %g", what, threads, found.rate, found.clock);
}

void test_measure(void) {
#if defined(__linux__)
    cpu_set_t before, after;
    sched_getaffinity(0, sizeof before, &before);
#endif
    for (int threads = 1; threads <= 3; threads++) {
        check_roof("fp32", 0, threads, 1);
        check_roof("bf16", 0, threads, 0);
        check_roof("int8", 0, threads, 1);
        check_roof("read", 4096, threads, 1);
        check_roof("read", 3 << 20, threads, 1);
        check_roof("copy", 5000, threads, 1);
        check_roof("copy", 3 << 20, threads, 1);
    }
    if (eb_measure_handover(0, 0, 1e-3) != 0) fail("a handover was measured from a processor to itself");
    if (eb_measure_handover(0, -1, 1e-3) != 0) fail("a handover was measured to a processor that does not exist");
    const double handover = eb_measure_handover(0, 1, 2e-3); /* 0 where there is no processor 1 */
    if (handover < 0 || handover > 1e-2) fail("a value takes %g seconds to another processor", handover);
    if (eb_measure_roof("fp31", 0, 1, 1e-3).rate != 0) fail("a roof that does not exist has a rate");
    if (eb_measure_roof("read", 64, 1, 1e-3).rate != 0) fail("too little to read has a rate");
    /* What an instruction set allows counts, not its name alone: some have no multiply-add of floats of their own. */
    for (int i = 0; i < eb_isa_count(); i++) {
        const char *isa = eb_isa_describe(i).name;
        if ((eb_measure_arithmetic("fp32", isa, 1e-3) > 0) != is_isa_here(isa)) fail("%s: a rate of multiply-adds without it, or none", isa);
    }
    if (eb_measure_arithmetic("fp32", NULL, 1e-3) <= 0) fail("no rate of multiply-adds");
    if (eb_measure_arithmetic("fp32", "nothing", 1e-3) != 0) fail("an instruction set that does not exist has a rate");
#if defined(__linux__)
    sched_getaffinity(0, sizeof after, &after);
    if (!CPU_EQUAL(&before, &after)) fail("measuring moved the calling thread");
#endif
    /* The loads stay inside of what they are given: exactly that much is allocated, and the sanitizers watch. */
    for (int64_t bytes = 4096; bytes <= 4096 + 192; bytes += 64) {
        char *data = malloc((size_t)bytes);
        memset(data, 1, (size_t)bytes);
        if (eb_measure_read(data, bytes, 1e-5) <= 0) fail("reading %ld bytes has no rate", (long)bytes);
        char *target = aligned_alloc(64, (size_t)bytes);
        memset(target, 0, (size_t)bytes);
        if (eb_measure_copy(target, data, bytes, 1e-5) <= 0 || target[4095] != 1) fail("copying %ld bytes fails", (long)bytes);
        free(target);
        free(data);
    }
    total.cases++;
}
