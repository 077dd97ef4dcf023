/* Instruction sets: the rows of isas.txt, and which of their features this machine has. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* syscall */
#endif
#include "engine.h"

#include <stdatomic.h>
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "isa_table.h"

/* Where a feature is reported; 0 on an architecture that reports in another way. */
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };
/* Bits of XCR0: the system saves SSE and AVX registers; those of AVX-512 (masks, upper halves, upper sixteen) too; tiles too. */
enum { STATE_NONE = 0, STATE_AVX = 0x06, STATE_AVX512 = 0xe6, STATE_AMX = 0x600e6 };

static uint64_t read_saved_state(void) {
    uint32_t r[4], high;
    __cpuid(1, r[EAX], r[EBX], r[ECX], r[EDX]);
    if (!(r[ECX] >> 27 & 1)) return 0; /* OSXSAVE: without it XGETBV is no instruction */
    __asm__ volatile("xgetbv" : "=a"(r[EAX]), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | r[EAX];
}

/* Linux saves the data of tiles for a process that has asked for it once, in all threads. */
static int is_permitted(uint64_t state) {
    enum { TILE_DATA = 18, REQUEST_PERMISSION = 0x1023 };
    if (!(state >> TILE_DATA & 1)) return 1;
#if defined(SYS_arch_prctl)
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return 0;
#endif
}

static int has_cpuid(uint32_t leaf, uint32_t subleaf, int reg, int bit, uint64_t state) {
    uint32_t r[4];
    if ((uint32_t)__get_cpuid_max(0, NULL) < leaf) return 0;
    __cpuid_count(leaf, 0, r[EAX], r[EBX], r[ECX], r[EDX]);
    if (subleaf > r[EAX]) return 0; /* leaf 7 says how many sub-leaves it has; what others answer is not defined */
    __cpuid_count(leaf, subleaf, r[EAX], r[EBX], r[ECX], r[EDX]);
    return (r[reg] >> bit & 1) && (read_saved_state() & state) == state && is_permitted(state);
}
#define EB_CPUID(leaf, subleaf, reg, bit, state) has_cpuid(leaf, subleaf, reg, bit, STATE_##state)
#define EB_HWCAP(bit) 0
#define EB_HWCAP2(bit) 0
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

#define EB_CPUID(leaf, subleaf, reg, bit, state) 0
#define EB_HWCAP(bit) (getauxval(AT_HWCAP) >> (bit) & 1)
#define EB_HWCAP2(bit) (getauxval(AT_HWCAP2) >> (bit) & 1)
#elif defined(__aarch64__)
/* Without an auxiliary vector: bit 1, vectors, is part of the architecture. */
#define EB_CPUID(leaf, subleaf, reg, bit, state) 0
#define EB_HWCAP(bit) ((bit) == 1)
#define EB_HWCAP2(bit) 0
#else
#define EB_CPUID(leaf, subleaf, reg, bit, state) 0
#define EB_HWCAP(bit) 0
#define EB_HWCAP2(bit) 0
#endif

#define ROW(name, probe) FEATURE_##name,
enum { EB_FEATURES(ROW) FEATURES };
#undef ROW
_Static_assert(FEATURES < 64, "a mask of features has 64 bits, one of which says that it is known");

#define ROW(name, probe) #name,
static const char *const features[] = {EB_FEATURES(ROW)};
#undef ROW

#define EB_REQUIRES(feature) (UINT64_C(1) << FEATURE_##feature)
#define ROW(name, requires) {#name, requires},
static const eb_isa_info isas[] = {EB_ISAS(ROW)};
#undef ROW

enum { ISAS = sizeof isas / sizeof isas[0] };

int32_t eb_isa_count(void) { return ISAS; }

eb_isa_info eb_isa_describe(int32_t isa) { return isas[isa]; }

const char *eb_feature_name(int32_t feature) { return feature >= 0 && feature < FEATURES ? features[feature] : NULL; }

uint64_t eb_isa_requires(const char *isa) {
    for (int i = 0; i < ISAS; i++)
        if (strcmp(isas[i].name, isa) == 0) return isas[i].requires;
    return UINT64_MAX;
}

uint64_t eb_machine_features(void) {
    /* Asked once: under a hypervisor, each CPUID instruction takes microseconds. */
    static const uint64_t is_known = UINT64_C(1) << 63;
    static _Atomic uint64_t known;
    uint64_t mask = atomic_load(&known);
    if (!mask) {
        mask = is_known;
#define ROW(name, probe) mask |= (probe) ? EB_REQUIRES(name) : 0;
        EB_FEATURES(ROW)
#undef ROW
        atomic_store(&known, mask);
    }
    return mask & ~is_known;
}
