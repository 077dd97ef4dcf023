/* The kernels, timed: `test_kernels bench ISA [part of a kernel's name]` goes through the timed cases of the list (cases.c).
 *
 * It works round by round at the command of scripts/bench_kernels.py, which times other libraries between two rounds, so
 * that all see the same machine. Lines are tab-separated:
 *   case OP NAME FLOPS READ WRITTEN INTS OPERANDS   bytes; ints and shapes as 1,2;3  ("-": absent; "f32:2,3")
 *   round FMA READ COPY KERNEL SECONDS EXECUTED ... answers one line on standard input; first the roofs of this moment:
 *                                                   FLOP/s with ISA, bytes/s of memory read, and of memory copied;
 *                                                   EXECUTED: the kernel's FLOPs where they are not the op's, else 0
 * A case ends when an empty line comes in.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "case.h"
#include "memory.h"
#include "suite.h"

/* Time of this thread on a core: other processes that push it aside do not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { MOST_KERNELS = 8, MEMORY_BYTES = 256 << 20 /* beyond any cache */ };
static const char *chosen_isa, *chosen_part;
static char *memory;

static int is_chosen(int32_t k) {
    const eb_kernel_info info = eb_kernel_describe(k);
    int everywhere = IS_ONE_OF(info.variant, "openblas", "blocked", "rows");
    return runs_here(k) && (strcmp(info.isa, chosen_isa) == 0 || everywhere) && strcmp(info.variant, "reference") != 0 &&
           strstr(info.name, chosen_part);
}

static int has_chosen_kernel(const char *op) {
    for (int32_t k = 0; k < eb_kernel_count(); k++)
        if (strcmp(eb_kernel_describe(k).op, op) == 0 && is_chosen(k)) return 1;
    return 0;
}

/* Seconds of a run: the mean of as many as take two milliseconds, after one that is not timed: measuring the roofs has
 * emptied the caches, which a run of two milliseconds alone would pay for and shorter ones would not. */
static double time_of(prepared *p) {
    eb_run(&p->node, 0, 1, p->bases, 1, NULL, NULL);
    for (int repeats = 1;; repeats *= 2) {
        double start = now();
        for (int r = 0; r < repeats; r++) eb_run(&p->node, 0, 1, p->bases, 1, NULL, NULL);
        double seconds = now() - start;
        if (seconds >= 2e-3) return seconds / repeats;
    }
}

/* Operations a second of multiply-adds: of bytes where the case multiplies some, else of what the chosen instruction set adds to
 * those that it extends. */
static double measure_products(const test_case *c) {
    if (c->operands[0].dtype == EB_I8) return eb_measure_arithmetic("int8", chosen_isa, 1e-3);
    const eb_roof bfloat = eb_measure_roof("bf16", 0, 1, 1e-3);
    return bfloat.isa && strcmp(bfloat.isa, chosen_isa) == 0 ? bfloat.rate : eb_measure_arithmetic("fp32", chosen_isa, 1e-3);
}

static void print_case(const test_case *c) {
    static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"};
    double bytes[2] = {0}; /* read, written */
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++)
        if (c->operands[i].dtype >= 0) bytes[i >= c->node.n_inputs] += (double)c->bytes[i];
    printf("case\t%s\t%s\t%.0f\t%.0f\t%.0f\t", c->op, c->name + strlen(c->op) + 1, c->flops, bytes[0], bytes[1]);
    for (int i = 0; i < c->node.n_ints; i++) printf("%s%ld", i ? "," : "", (long)c->ints[i]);
    putchar('\t');
    for (int i = 0; i < c->node.n_inputs; i++) {
        const eb_tensor *t = &c->operands[i];
        printf("%s%s", i ? ";" : "", t->dtype < 0 ? "-" : dtypes[t->dtype]);
        for (int axis = 0; axis < t->rank && t->dtype >= 0; axis++) printf("%c%ld", axis ? ',' : ':', (long)t->shape[axis]);
    }
    putchar('\n');
}

/* Operands as a program has them: aligned to 64 bytes, large ones on large pages, and in memory that has been touched. */
static void align_operands(test_case *c) {
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++) {
        if (!c->data[i]) continue;
        void *data = eb_allocate(c->bytes[i]);
        memset(data, 0, (size_t)c->bytes[i]);
        if (i < c->node.n_inputs) memcpy(data, c->data[i], (size_t)c->bytes[i]);
        free(c->data[i]);
        c->data[i] = data;
    }
}

/* Time all chosen kernels of the case's op in turn, as often as the script asks. */
static void bench_case(case_visitor *v, test_case *c) {
    (void)v;
    if (!(c->roles & TIMED) || !has_chosen_kernel(c->op)) return;
    prepared p[MOST_KERNELS];
    int32_t ids[MOST_KERNELS];
    int count = 0;
    case_fill(c);
    align_operands(c);
    for (int32_t k = 0; k < eb_kernel_count() && count < MOST_KERNELS; k++) {
        if (strcmp(eb_kernel_describe(k).op, c->op) != 0 || !is_chosen(k)) continue;
        if (case_prepare(c, k, 1, &p[count]) == EB_OK)
            ids[count++] = k;
        else
            prepared_free(&p[count]);
    }
    if (count) print_case(c);
    for (char line[16]; count;) {
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin) || line[0] == '\n') break;
        printf("round");
        printf("\t%.6g", measure_products(c));
        printf("\t%.6g", eb_measure_read(memory, MEMORY_BYTES, 4e-3));
        printf("\t%.6g", eb_measure_copy(memory, memory + MEMORY_BYTES / 2, MEMORY_BYTES / 2, 4e-3));
        for (int i = 0; i < count; i++)
            printf("\t%s\t%.9g\t%ld", eb_kernel_describe(ids[i]).name, time_of(&p[i]), (long)p[i].node.operations);
        putchar('\n');
    }
    for (int i = 0; i < count; i++) prepared_free(&p[i]);
}

/* OpenBLAS from the file named by KERNELS_OPENBLAS, on one thread. */
static void load_openblas(void) {
    const char *path = getenv("KERNELS_OPENBLAS");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    eb_set_sgemm(library ? dlsym(library, "scipy_cblas_sgemm") : NULL);
}

void bench(const char *isa, const char *part) {
    chosen_isa = isa;
    chosen_part = part;
    load_openblas();
    memory = eb_allocate(MEMORY_BYTES);
    memset(memory, 1, MEMORY_BYTES);
    walk_cases(&(case_visitor){.visit = bench_case, .part = part});
    free(memory);
}
