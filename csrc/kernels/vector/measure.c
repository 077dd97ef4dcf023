/* Roofs of one instruction set: multiply-adds from registers, and loads. Each loop does nothing else: the assembly
 * statements make the compiler believe that every result is needed, so none is folded or dropped. Looked at in the
 * disassembly (gcc 12 and clang 14, avx512): one vfmadd a chain, one vmovups a vector, and the loop's own counter. */
#include "../../measure.h"
#include "../../stream.h"
#include "vec.h"

/* Independent sums. Enough when no smaller than latency x instructions a cycle: 4 x 2 on x86-64 with fused
 * multiply-adds, 4 x 4 on the widest Arm cores, (3 + 3) x 2 for the separate multiply and add of baseline x86-64. */
enum { CHAINS = EB_MR * 2 < 12 ? 12 : EB_MR * 2, LOADS = 8 };

/* Flops of `rounds` rounds; *sink keeps the compiler from dropping them. */
static double compute(int64_t rounds, float *sink) {
    vf sum[CHAINS], scale = vf_set(0.5f), step = vf_set(*sink);
    EB_UNROLL
    for (int c = 0; c < CHAINS; c++) sum[c] = vf_set((float)c);
    for (int64_t i = 0; i < rounds; i++) {
        /* The chains meet a barrier a round, so that nothing is folded across rounds. */
        EB_UNROLL
        for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * scale + step;
        EB_UNROLL
        for (int c = 0; c < CHAINS; c++) __asm__ volatile("" : "+" EB_REGISTER(sum[c]));
    }
    vf total = sum[0];
    EB_UNROLL
    for (int c = 1; c < CHAINS; c++) total += sum[c];
    *sink = vf_sum(total);
    return 2.0 * EB_VL * CHAINS * (double)rounds;
}

/* Load `data` from its start, again and again, until `total` bytes are loaded; answers how many. Whole steps of `bytes`
 * alone, at least one. */
static double read_data(const void *data, int64_t bytes, int64_t total) {
    enum { STEP = LOADS * EB_VL * 4 };
    const char *p = data, *end = p + bytes / STEP * STEP;
    for (int64_t steps = total / STEP; steps > 0; steps--) {
        EB_UNROLL
        for (int c = 0; c < LOADS; c++) {
            vf loaded = vf_load(p + c * EB_VL * 4);
            __asm__ volatile("" : : EB_REGISTER(loaded));
        }
        p += STEP;
        p = p == end ? data : p;
    }
    return (double)(total / STEP * STEP);
}

/* Copy whole steps of `bytes`, past the caches; answers how many bytes were read and written. */
static double copy_data(void *to, const void *from, int64_t bytes) {
    enum { STEP = LOADS * EB_VL * 4 };
    for (int64_t at = 0; at + STEP <= bytes; at += STEP) {
        EB_UNROLL
        for (int c = 0; c < LOADS; c++)
            vf_stream((float *)((char *)to + at) + c * EB_VL, vf_load((const float *)((const char *)from + at) + c * EB_VL));
    }
    eb_stream_end();
    return 2.0 * (double)(bytes / STEP * STEP);
}

#define ROOF(kind) const eb_roof_loop EB_PASTE(eb_, kind, _, EB_ISA, , )
ROOF(compute) = {"fp32", EB_TEXT(EB_ISA), .compute = compute, .per_instruction = 2 * EB_VL};
ROOF(read) = {"read", EB_TEXT(EB_ISA), .read = read_data, .per_instruction = 4 * EB_VL};
ROOF(copy) = {"copy", EB_TEXT(EB_ISA), .copy = copy_data, .per_instruction = 4 * EB_VL};
