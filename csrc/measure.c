/* Roofs of this machine: arithmetic from registers, reading from each level of the memory, and copying, at any number of
 * threads.
 * The loops are those of kernels/vector/measure.c and kernels/<isa>/; here is who runs them, and when. Knows no kernel of the registry. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* processors of a thread */
#endif
#include "engine.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "isa_table.h"
#include "measure.h"
#include "memory.h"

#define ROW(isa) extern const eb_roof_loop eb_compute_##isa, eb_bytes_##isa, eb_read_##isa, eb_copy_##isa;
EB_VECTOR_ISAS(ROW)
#undef ROW
extern const eb_roof_loop eb_dot_amxbf16, eb_dot_avx512bf16, eb_bytes_amxint8, eb_bytes_avx512vnni, eb_bytes_avxvnni, eb_bytes_neondot;

/* Of one kind the most capable first. */
static const eb_roof_loop *const roofs[] = {
#ifdef EB_BUILD_AMXINT8
    &eb_bytes_amxint8,
#endif
#ifdef EB_BUILD_AVX512VNNI
    &eb_bytes_avx512vnni,
#endif
#ifdef EB_BUILD_AVXVNNI
    &eb_bytes_avxvnni,
#endif
#ifdef EB_BUILD_NEONDOT
    &eb_bytes_neondot,
#endif
#ifdef EB_BUILD_AMXBF16
    &eb_dot_amxbf16,
#endif
#ifdef EB_BUILD_AVX512BF16
    &eb_dot_avx512bf16,
#endif
#define ROW(isa) &eb_compute_##isa, &eb_bytes_##isa, &eb_read_##isa, &eb_copy_##isa,
    EB_VECTOR_ISAS(ROW)
#undef ROW
};

enum { ROUNDS = 1000, READ_REPEATED = 1 << 21, READ_PIECE = 1 << 18, CHAIN = 1 << 15, MOST_WINDOWS = 1000 };
/* Shorter than a scheduler's slice, so that some windows are undisturbed on a busy machine too. */
static const double WINDOW = 1e-3;

/* The first roof that is called `what`, of this machine and of what `isa` allows; NULL as `isa` allows everything. NULL:
 * there is none. */
static const eb_roof_loop *find(const char *what, const char *isa) {
    const uint64_t here = eb_machine_features(), allowed = isa ? eb_isa_requires(isa) : here;
    if (allowed & ~here) return NULL;
    for (size_t i = 0; i < sizeof roofs / sizeof roofs[0]; i++)
        if (strcmp(roofs[i]->what, what) == 0 && !(eb_isa_requires(roofs[i]->isa) & ~allowed)) return roofs[i];
    return NULL;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Cycles a second of the processor that this thread is on: additions that wait for each other take a cycle each. Two
 * registers, because some processors add small constants without a cycle. The better of two tries. */
static double clock_rate(void) {
    double best = 0;
    for (int attempt = 0; attempt < 2; attempt++) {
        uint64_t sum = 0, step = 1;
        __asm__ volatile("" : "+r"(step));
        double begin = now();
        for (int i = 0; i < CHAIN / 16; i++)
#if defined(__clang__)
#pragma clang loop unroll(full)
#else
#pragma GCC unroll 16
#endif
            for (int j = 0; j < 16; j++) {
                sum += step;
                __asm__ volatile("" : "+r"(sum));
            }
        double rate = CHAIN / (now() - begin);
        best = rate > best ? rate : best;
    }
    return best;
}

/* --- all threads at once ------------------------------------------------------------------------------------------ */

typedef struct {
    atomic_int waiting, phase, members; /* members: 0 until all threads exist, -1: they do not, go home */
} gate;

typedef struct {
    pthread_t thread;
    const eb_roof_loop *roof;
    gate *gate;
    char *data, *target; /* a copy goes to the other half of its memory */
    int64_t bytes, place;
    int cpu; /* -1: any */
    float sink;
    int windows;
    struct window {
        double begin, end, done, clock;
    } *window;
} worker;

/* Wait until every thread is here. */
static void meet(gate *g) {
    int phase = atomic_load(&g->phase);
    if (atomic_fetch_add(&g->waiting, 1) == atomic_load(&g->members) - 1) {
        atomic_store(&g->waiting, 0);
        atomic_fetch_add(&g->phase, 1);
    } else {
        while (atomic_load(&g->phase) == phase) sched_yield();
    }
}

/* Five to twenty microseconds of work: far longer than reading the time (where that was 9% of a piece, the first cache
 * seemed to give 0.91 loads a cycle), far shorter than a window. */
static double do_some(worker *w) {
    if (w->roof->compute) return w->roof->compute(ROUNDS, &w->sink);
    if (w->roof->read && w->bytes <= READ_PIECE * 4) return w->roof->read(w->data, w->bytes, READ_REPEATED);
    int64_t left = w->bytes - w->place, size = left < READ_PIECE ? left : READ_PIECE;
    double done = w->roof->copy ? w->roof->copy(w->target + w->place, w->data + w->place, size)
                                : w->roof->read(w->data + w->place, size, size);
    w->place = size == left ? 0 : w->place + size;
    return done;
}

/* Put this thread on processor `cpu`; 0 where it stays where it is, as it does for -1. */
static int move_to(int cpu) {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < 0 || cpu >= CPU_SETSIZE) return 0;
    CPU_SET(cpu, &set);
    return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
#else
    (void)cpu;
    return 0;
#endif
}

static void *measure(void *argument) {
    worker *w = argument;
    move_to(w->cpu);
    int members;
    while ((members = atomic_load(&w->gate->members)) == 0) sched_yield();
    if (members < 0) return NULL;
    /* By the thread that reads it, for its own memory node. */
    if (w->data) memset(w->data, 1, (size_t)w->bytes * (w->target ? 2 : 1));
    for (int i = 0; i < w->windows; i++) {
        struct window *one = &w->window[i];
        do_some(w); /* the clock's chain and the wait were something else */
        meet(w->gate);
        one->begin = now();
        do {
            one->done += do_some(w);
            one->end = now();
        } while (one->end - one->begin < WINDOW);
        one->clock = clock_rate(); /* at once: a clock that wide vectors have slowed down is still slow */
    }
    return NULL;
}

/* The last `count` processors that this process may use (the first serve most interrupts); -1 where there are fewer. */
static void choose_cpus(worker *workers, int count) {
    for (int t = 0; t < count; t++) workers[t].cpu = -1;
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < count) return;
    int t = count;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && t > 0; cpu--)
        if (CPU_ISSET(cpu, &allowed)) workers[--t].cpu = cpu;
#endif
}

/* Run all workers. 0 where threads or memory are missing. */
static int run_all(worker *workers, int count, gate *g) {
    int made = 0, enough = 1;
    for (int t = 0; t < count && !workers[0].roof->compute; t++) {
        worker *w = &workers[t];
        enough &= (w->data = eb_allocate(w->bytes)) != NULL;
        if (w->roof->copy) w->bytes = w->bytes / 2 / 64 * 64, w->target = w->data + w->bytes;
    }
    while (enough && made < count && pthread_create(&workers[made].thread, NULL, measure, &workers[made]) == 0) made++;
    atomic_store(&g->members, made == count ? count : -1);
    for (int t = 0; t < made; t++) pthread_join(workers[t].thread, NULL);
    for (int t = 0; t < count; t++) free(workers[t].data);
    return made == count;
}

/* The best window: what all threads did in it, from the first that began to the last that ended. */
static void best_window(eb_roof *found, const worker *workers, int count) {
    for (int i = 0; i < workers[0].windows; i++) {
        double done = 0, clock = 0, begin = workers[0].window[i].begin, end = workers[0].window[i].end;
        for (int t = 0; t < count; t++) {
            const struct window *one = &workers[t].window[i];
            done += one->done;
            clock += one->clock / count;
            begin = one->begin < begin ? one->begin : begin;
            end = one->end > end ? one->end : end;
        }
        if (done / (end - begin) > found->rate) found->rate = done / (end - begin);
        if (clock > found->clock) found->clock = clock;
    }
}

eb_roof eb_measure_roof(const char *what, int64_t bytes, int32_t threads, double seconds) {
    eb_roof found = {0};
    const eb_roof_loop *row = find(what, NULL);
    if (!row || threads < 1 || (!row->compute && bytes < 4096)) return found;
    int windows = seconds < WINDOW ? 1 : seconds < MOST_WINDOWS * WINDOW ? (int)(seconds / WINDOW) : MOST_WINDOWS;
    worker *workers = calloc((size_t)threads, sizeof *workers);
    struct window *window = calloc((size_t)threads * (size_t)windows, sizeof *window);
    gate g = {0};
    if (workers && window) {
        choose_cpus(workers, threads);
        for (int t = 0; t < threads; t++) {
            worker *w = &workers[t];
            w->roof = row;
            w->gate = &g;
            w->bytes = bytes;
            w->sink = 1;
            w->windows = windows;
            w->window = window + (int64_t)t * windows;
        }
        if (run_all(workers, threads, &g)) {
            found.isa = row->isa;
            found.per_instruction = row->per_instruction;
            best_window(&found, workers, threads);
        }
    }
    free(window);
    free(workers);
    return found;
}

/* --- from one processor to another -------------------------------------------------------------------------------- */

typedef struct {
    atomic_int turn; /* even: the first thread's, odd: the second's, negative: the end */
    atomic_int ready;
    int from, to;
    double seconds, best;
} handover;

/* Answers each odd turn. */
static void *give_back(void *argument) {
    handover *h = argument;
    atomic_store(&h->ready, move_to(h->to) ? 1 : -1);
    for (int turn = 0; turn >= 0;)
        if ((turn = atomic_load_explicit(&h->turn, memory_order_acquire)) % 2 == 1) atomic_store(&h->turn, turn + 1);
    return NULL;
}

static void *hand_over(void *argument) {
    handover *h = argument;
    enum { TURNS = 1000 };
    int ready;
    const int moved = move_to(h->from);
    while ((ready = atomic_load(&h->ready)) == 0) sched_yield();
    const double start = now();
    while (moved && ready > 0 && now() - start < h->seconds) {
        const double begin = now();
        for (int i = 0; i < TURNS; i++) {
            atomic_store_explicit(&h->turn, 2 * i + 1, memory_order_release);
            while (atomic_load_explicit(&h->turn, memory_order_acquire) != 2 * i + 2) {}
        }
        const double each = (now() - begin) / (2 * TURNS);
        if (h->best == 0 || each < h->best) h->best = each;
        atomic_store(&h->turn, 0);
    }
    atomic_store(&h->turn, -2);
    return NULL;
}

double eb_measure_handover(int32_t from, int32_t to, double seconds) {
    handover h = {.from = from, .to = to, .seconds = seconds};
    pthread_t first, second;
    if (from == to || pthread_create(&second, NULL, give_back, &h) != 0) return 0;
    if (pthread_create(&first, NULL, hand_over, &h) == 0)
        pthread_join(first, NULL);
    else
        atomic_store(&h.turn, -2);
    pthread_join(second, NULL);
    return h.best;
}

/* --- the calling thread alone ------------------------------------------------------------------------------------- */

/* The best piece of work of `at_least_seconds`: a roof is what the machine can do when nothing disturbs it. */
static double best_piece(worker *w, double at_least_seconds) {
    double best = 0, start = now();
    do {
        double begin = now(), done = 0, passed;
        do {
            done += do_some(w);
            passed = now() - begin;
        } while (passed < at_least_seconds / 20);
        if (done / passed > best) best = done / passed;
    } while (now() - start < at_least_seconds);
    return best;
}

double eb_measure_arithmetic(const char *what, const char *isa, double at_least_seconds) {
    worker w = {.roof = find(what, isa), .sink = 1};
    return w.roof ? best_piece(&w, at_least_seconds) : 0;
}

double eb_measure_read(const void *data, int64_t bytes, double at_least_seconds) {
    worker w = {.roof = find("read", NULL), .data = (char *)(uintptr_t)data, .bytes = bytes};
    return bytes >= 4096 ? best_piece(&w, at_least_seconds) : 0;
}

double eb_measure_copy(void *to, const void *from, int64_t bytes, double at_least_seconds) {
    worker w = {.roof = find("copy", NULL), .data = (char *)(uintptr_t)from, .target = to, .bytes = bytes};
    return bytes >= 4096 ? best_piece(&w, at_least_seconds) : 0;
}
