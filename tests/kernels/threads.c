/* Worker threads, seen by kernels made for these tests: floating-point control state, signals, very many tiles. */
#include <fenv.h>
#include <float.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "pool.h"
#include "suite.h"

enum { TILES = 64, ROUNDS = 1000, WORKERS = MOST_THREADS }; /* one worker more than test_pool uses */

/* --- what a thread has of its own ---------------------------------------------------------------------------------- */

/* Bits of 1 / 3, which depend on the rounding mode, and of a subnormal product, which may be flushed to zero. No floats:
 * a thread that takes subnormal numbers for zero finds them equal to it. */
typedef struct {
    uint32_t third, subnormal;
} arithmetic;

static arithmetic compute(void) {
    volatile float one = 1, three = 3, least = FLT_MIN, half = 0.5f;
    volatile union {
        float value;
        uint32_t bits;
    } third, subnormal; /* volatile: computed here, not where the result is used */
    third.value = one / three;
    subnormal.value = least * half;
    return (arithmetic){third.bits, subnormal.bits};
}

typedef struct {
    pthread_t caller;
    atomic_int by_workers; /* tiles that workers ran */
    arithmetic results[TILES];
    sigset_t mask; /* of a worker */
} record;

static eb_status observe(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)node, (void)scratch;
    record *r = bases[0];
    for (int64_t tile = begin; tile < end; tile++) r->results[tile] = compute();
    if (pthread_equal(pthread_self(), r->caller)) {
        struct timespec nap = {0, 50000}; /* leaves tiles and a core to the workers */
        nanosleep(&nap, NULL);
    } else if (atomic_fetch_add(&r->by_workers, 1) == 0) {
        pthread_sigmask(SIG_BLOCK, NULL, &r->mask);
    }
    return EB_OK;
}

/* Run jobs of TILES tiles until a worker has run some, and check that all tiles of each computed what the caller does. */
static void run_observed(record *r, const char *what) {
    static const eb_kernel kernel = {.run = observe};
    static const eb_kernel *const table[] = {&kernel};
    eb_node node = {.tiles = TILES};
    void *bases[] = {r};
    arithmetic expected = compute();
    r->caller = pthread_self();
    atomic_store(&r->by_workers, 0);
    if (eb_pool_borrow(WORKERS) != WORKERS) {
        fail("%s: the pool is not free", what);
        return;
    }
    for (int round = 0; round < ROUNDS && atomic_load(&r->by_workers) == 0; round++) {
        eb_pool_run(table, &node, 0, 1, bases, NULL, NULL);
        for (int t = 0; t < TILES; t++)
            if (r->results[t].third != expected.third || r->results[t].subnormal != expected.subnormal) {
                fail("%s: tile %d computed %x and %x, the caller %x and %x", what, t, r->results[t].third,
                     r->results[t].subnormal, expected.third, expected.subnormal);
                break;
            }
    }
    eb_pool_return();
    if (atomic_load(&r->by_workers) == 0) fail("%s: no worker ran a tile", what);
}

/* --- floating-point control state ---------------------------------------------------------------------------------- */

/* Flush subnormal results and operands to zero, or compute with them. */
static void set_flush(int on) {
#if defined(__SSE__)
    unsigned control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? control | 0x8040u : control & ~0x8040u);
#elif defined(__aarch64__)
    uint64_t control, flush = UINT64_C(1) << 24;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    control = on ? control | flush : control & ~flush;
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#else
    (void)on;
#endif
}

/* Each job has the caller's state of that moment; one that a worker has from an earlier job does not stay. */
static void check_control(void) {
    static record r;
    arithmetic usual = compute();
    for (int round = 0; round < 5; round++) {
        run_observed(&r, "usual rounding");
        fesetround(FE_DOWNWARD);
        set_flush(1);
        arithmetic other = compute();
        run_observed(&r, "rounding down and flushing");
        fesetround(FE_TONEAREST);
        set_flush(0);
        if (other.third == usual.third) fail("rounding down has no effect in this test");
#if defined(__SSE__) || defined(__aarch64__)
        if (other.subnormal != 0 || usual.subnormal == 0) fail("flushing has no effect in this test");
#endif
    }
}

/* --- signals ------------------------------------------------------------------------------------------------------- */

static atomic_int handled;
static void handle(int signal) {
    (void)signal;
    atomic_fetch_add(&handled, 1);
}

/* A signal of the process reaches threads of the program, never a worker: here the thread that waits for it. */
static void check_signals(void) {
    static record r;
    static const int asynchronous[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCHLD, SIGPROF, SIGPIPE};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigset_t before, during, after;
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    run_observed(&r, "signals");
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (size_t i = 0; i < sizeof asynchronous / sizeof asynchronous[0]; i++) {
        int signal = asynchronous[i];
        if (!sigismember(&r.mask, signal)) fail("workers do not block signal %d", signal);
        if (sigismember(&before, signal) != sigismember(&after, signal)) fail("the caller's mask has changed");
    }
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        if (sigismember(&r.mask, faults[i])) fail("workers block signal %d, which their own faults raise", faults[i]);

    struct sigaction action = {.sa_handler = handle}, old;
    sigaction(SIGUSR1, &action, &old);
    sigemptyset(&during);
    sigaddset(&during, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &during, NULL);
    kill(getpid(), SIGUSR1);
    struct timespec limit = {1, 0};
    if (sigtimedwait(&during, NULL, &limit) != SIGUSR1 || atomic_load(&handled))
        fail("a worker took a signal for which its process waits");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGUSR1, &old, NULL);
}

/* --- very many tiles ----------------------------------------------------------------------------------------------- */

typedef struct {
    atomic_ullong tiles, sum; /* number of tiles that ran, and the sum of their numbers modulo 2^64 */
    atomic_ullong early;      /* chunks of a join, or of a later node, that ran before all tiles that they need */
} counts;

typedef struct {
    int64_t number, needed; /* of the node; tiles of the node before it */
} counted;
EB_NODE_PLAN(counted)

/* Counts in a buffer a node; its joins need its tiles, and its tiles all of the node before it. */
static eb_status count_tiles(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)scratch;
    int number = (int)counted_of(node)->number;
    counts *c = (counts *)bases[0] + number;
    uint64_t needed = (uint64_t)counted_of(node)->needed;
    int is_join = begin >= node->tiles;
    if (is_join ? atomic_load(&c->tiles) < (uint64_t)node->tiles : number && atomic_load(&c[-1].tiles) != needed)
        atomic_fetch_add(&c->early, 1);
    uint64_t tiles = (uint64_t)(end - begin), ends = (uint64_t)begin + (uint64_t)(end - 1);
    if (end <= begin || end > node->tiles + node->joins || (!is_join && end > node->tiles)) atomic_fetch_add(&c->early, 1);
    atomic_fetch_add(&c->sum, tiles % 2 ? ends / 2 * tiles + ends % 2 * (tiles / 2) : ends * (tiles / 2));
    atomic_fetch_add(&c->tiles, tiles);
    return EB_OK;
}

/* Sum of 0 .. n - 1 modulo 2^64. */
static uint64_t sum_below(uint64_t n) { return n % 2 ? n * ((n - 1) / 2) : n / 2 * (n - 1); }

/* Nodes of more tiles, or joins, than 32 bits count: each runs once, in the order that the plan wants. */
static void check_many_tiles(void) {
    static const eb_kernel kernel = {.run = count_tiles};
    static const eb_kernel *const table[] = {&kernel};
    static const int64_t sizes[][2] = {
        {3, 0},
        {(INT64_C(1) << 32) - 1, 0},
        {INT64_C(1) << 32, (INT64_C(1) << 33) + 1},
        {(INT64_C(1) << 32) + 5, 2},
        {(INT64_C(1) << 45) + 12345, 0},
        {1, 0},
    };
    enum { NODES = sizeof sizes / sizeof sizes[0] };
    static counts found[NODES];
    eb_node nodes[NODES];
    void *bases[] = {found};
    for (int n = 0; n < NODES; n++) {
        nodes[n] = (eb_node){.tiles = sizes[n][0], .joins = sizes[n][1]};
        *edit_counted(&nodes[n]) = (counted){n, n ? sizes[n - 1][0] + sizes[n - 1][1] : 0};
    }
    if (!eb_pool_borrow(2)) {
        fail("many tiles: the pool is not free");
        return;
    }
    eb_status status = eb_pool_run(table, nodes, 0, NODES, bases, NULL, NULL);
    eb_pool_return();
    if (status != EB_OK) fail("many tiles: status %d", (int)status);
    for (int n = 0; n < NODES; n++) {
        uint64_t expected = (uint64_t)(sizes[n][0] + sizes[n][1]);
        if (atomic_load(&found[n].tiles) != expected || atomic_load(&found[n].sum) != sum_below(expected))
            fail("many tiles: node %d ran %llu of %llu tiles", n, atomic_load(&found[n].tiles),
                 (unsigned long long)expected);
        if (atomic_load(&found[n].early)) fail("many tiles: %llu ranges of node %d are wrong or too early",
                                               atomic_load(&found[n].early), n);
    }
}

void test_threads(void) {
    total.cases++;
    check_signals(); /* first, since it creates a worker */
    check_control();
    check_many_tiles();
}
