/* The table of instruction sets: what its rows require, and each probe against another source of the same fact. */
#include <string.h>

#include "case.h"
#include "suite.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

static uint64_t bit_of(const char *feature) {
    for (int i = 0; eb_feature_name(i); i++)
        if (strcmp(eb_feature_name(i), feature) == 0) return UINT64_C(1) << i;
    fail("no feature %s in the table", feature);
    return 0;
}

static void check_feature(const char *name, int expected) {
    int here = (eb_machine_features() & bit_of(name)) != 0;
    if (here != (expected != 0)) fail("feature %s: probed %d, expected %d", name, here, expected != 0);
}

/* On x86 the compiler's own run-time library; on Arm the identification registers, which Linux lets programs read. */
static void check_probes(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
#define CHECK(name, theirs) check_feature(name, __builtin_cpu_supports(theirs));
    CHECK("fma", "fma")
    CHECK("avx2", "avx2")
    CHECK("avx512f", "avx512f")
    CHECK("avx512dq", "avx512dq")
    CHECK("avx512bw", "avx512bw")
    CHECK("avx512vl", "avx512vl")
    CHECK("avx512_vnni", "avx512vnni")
    CHECK("avx512_bf16", "avx512bf16")
#if !defined(__clang__) /* clang 14 does not know their names */
    CHECK("f16c", "f16c")
    CHECK("avx_vnni", "avxvnni")
    CHECK("amx_tile", "amx-tile")
    CHECK("amx_int8", "amx-int8")
    CHECK("amx_bf16", "amx-bf16")
#endif
#undef CHECK
    check_feature("asimd", 0);
    check_feature("i8mm", 0);
#elif defined(__aarch64__) && defined(__linux__)
    check_feature("avx2", 0);
    check_feature("asimd", 1);
    if (getauxval(AT_HWCAP) >> 11 & 1) { /* HWCAP_CPUID: the registers can be read */
        uint64_t isar0, isar1;
        __asm__("mrs %0, ID_AA64ISAR0_EL1" : "=r"(isar0));
        __asm__("mrs %0, S3_0_C0_C6_1" : "=r"(isar1)); /* ID_AA64ISAR1_EL1 */
        check_feature("asimddp", isar0 >> 44 & 15);
        check_feature("i8mm", isar1 >> 52 & 15);
    }
#endif
}

/* Whether a machine for `larger` runs `smaller`. */
static int includes(const char *larger, const char *smaller) {
    return (eb_isa_requires(smaller) & ~eb_isa_requires(larger)) == 0;
}

void test_isas(void) {
    total.cases++;
    check_probes();
    for (int i = 0; i < eb_isa_count(); i++) {
        eb_isa_info info = eb_isa_describe(i);
        if (eb_isa_requires(info.name) != info.requires) fail("isa %s stands twice in the table", info.name);
        if (!includes(info.name, "generic")) fail("isa %s excludes generic", info.name);
    }
    for (int32_t k = 0; k < eb_kernel_count(); k++)
        if (eb_isa_requires(eb_kernel_describe(k).isa) == UINT64_MAX) fail("%s is of no instruction set", eb_kernel_describe(k).name);
    if (eb_isa_requires("generic") != 0 || !is_isa_here("generic")) fail("generic requires something");
    if (is_isa_here("nothing")) fail("an instruction set that does not exist is here");
    /* Not an order: of two rows, neither may include the other. */
    if (!includes("avx512vnni", "avx512") || !includes("avx512", "avx2") || !includes("i8mm", "neondot")) fail("a row excludes what it extends");
    if (includes("avx512", "avx512vnni") || includes("avx512vnni", "avx512bf16") || includes("avx512", "avxvnni"))
        fail("a row includes what it does not require");
    if (includes("avx512", "neon") || includes("neon", "avx2")) fail("a row includes one of another architecture");
}
