/* The pool of threads: many callers at once, a fork, timing, failures, order, more threads than cores. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool.h"
#include "sharing.h"
#include "suite.h"

enum { CALLERS = 4, ROUNDS = 60, NODES = 3 };

typedef struct {
    test_case c;
    prepared p;
    float expected[64];
} worker;

static void make_worker(worker *w, int seed) {
    make_binary(&w->c, "add", 40 + seed, 2000, 0, 1);
    case_fill(&w->c);
    for (int32_t k = eb_kernel_count() - 1; k >= 0; k--)
        if (strcmp(eb_kernel_describe(k).name, "f32_add__generic_vector") == 0) case_prepare(&w->c, k, MOST_THREADS, &w->p);
}

static void *call(void *argument) {
    worker *w = argument;
    const float *a = w->c.data[0], *b = w->c.data[1], *y = w->c.data[2];
    eb_node nodes[NODES] = {w->p.node, w->p.node, w->p.node};
    int64_t count = w->c.bytes[2] / 4;
    for (int round = 0; round < ROUNDS; round++) {
        memset(w->c.data[2], 0, (size_t)w->c.bytes[2]);
        int64_t ticks[MOST_THREADS * NODES] = {0};
        eb_profile profile = {NODES, 0, ticks};
        eb_status status = eb_run(nodes, 0, NODES, w->p.bases, MOST_THREADS, &profile, NULL);
        int bad = status != EB_OK;
        for (int n = 0; n < NODES; n++) {
            int64_t busy = 0;
            for (int t = 0; t < MOST_THREADS; t++) busy += ticks[t * NODES + n];
            bad |= busy <= 0;
        }
        for (int t = 0; t < MOST_THREADS; t++) {
            int64_t busy = 0;
            for (int n = 0; n < NODES; n++) busy += ticks[t * NODES + n];
            bad |= busy > profile.wall;
        }
        for (int64_t i = 0; i < count; i += 7) bad |= y[i] != a[i] + b[i % 2000];
        if (bad) return "a run at many threads is wrong";
    }
    return NULL;
}

static void check_callers(void) {
    static worker workers[CALLERS];
    pthread_t threads[CALLERS];
    for (int i = 0; i < CALLERS; i++) make_worker(&workers[i], i);
    for (int i = 0; i < CALLERS; i++) pthread_create(&threads[i], NULL, call, &workers[i]);
    for (int i = 0; i < CALLERS; i++) {
        void *complaint;
        pthread_join(threads[i], &complaint);
        if (complaint) fail("pool: %s", (const char *)complaint);
        prepared_free(&workers[i].p);
        case_end(&workers[i].c);
    }
}

/* The child has no threads of the parent's pool: it must make its own, not wait for ghosts. */
static void check_fork(void) {
    static worker w;
    make_worker(&w, 1);
    if (call(&w)) fail("pool: wrong before the fork");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(call(&w) == NULL ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail("pool: the child of a fork ended with %d", status);
    prepared_free(&w.p);
    case_end(&w.c);
}

/* Two nodes that may overlap, both failing, the later one at its very first tile: the earlier one is named, at any
 * number of threads. */
static void check_failure(int threads) {
    test_case c;
    prepared p, q;
    case_begin(&c, "embedding", 0, "out of range");
    case_input(&c, EB_F32, DENSE, 1, SHAPE(4, 3000));
    case_input(&c, EB_I64, DENSE, 4, SHAPE(200));
    case_output(&c, EB_F32, DENSE, SHAPE(200, 3000));
    case_fill(&c);
    int32_t kernel = find_kernel("any_embedding__generic_rows");
    case_prepare(&c, kernel, threads, &p);
    case_prepare(&c, kernel, threads, &q);
    enum { INDICES = MOST_OPERANDS - 2, OUTPUT = MOST_OPERANDS - 1 };
    int64_t indices[200] = {4};
    ((int64_t *)c.data[1])[199] = 4;
    q.operands[1].buffer = INDICES;
    q.operands[2].buffer = OUTPUT;
    p.bases[INDICES] = indices;
    p.bases[OUTPUT] = malloc((size_t)c.bytes[2]);
    eb_node nodes[3] = {p.node, p.node, q.node};
    nodes[2].overlap = 1;
    for (int round = 0; round < 20; round++) {
        int32_t failed = -1;
        eb_status status = eb_run(nodes, 1, 3, p.bases, threads, NULL, &failed);
        if (status != EB_INDEX_OUT_OF_RANGE || failed != 1)
            fail("failure at %d threads: status %d, node %d", threads, (int)status, failed);
    }
    free(p.bases[OUTPUT]);
    prepared_free(&p);
    prepared_free(&q);
    case_end(&c);
}

/* A chain: each node adds b to what the node before it made, in place, and lone tiles take turns with shared ones. Also
 * longer than the pool takes at once. Sums of small integers are exact, so any node that ran too early shows. */
static void check_chain(int threads) {
    enum { LENGTH = 1500 };
    static eb_node nodes[LENGTH];
    test_case large, small;
    prepared p, q;
    make_binary(&large, "add", 64, 2000, 0, 1);
    make_binary(&small, "add", 1, 2000, 0, 1);
    case_fill(&large);
    case_fill(&small);
    int32_t kernel = find_kernel("f32_add__generic_vector");
    case_prepare(&large, kernel, threads, &p);
    case_prepare(&small, kernel, threads, &q);
    for (int i = 0; i < 3; i++) q.operands[i].buffer += 3;
    memcpy(&p.bases[3], small.data, 3 * sizeof(void *));
    p.operands[0].buffer = p.operands[2].buffer;
    q.operands[0].buffer = q.operands[2].buffer;
    int larges = 0, smalls = 0;
    for (int n = 0; n < LENGTH; n++) {
        int is_large = n % 50 == 7;
        nodes[n] = is_large ? p.node : q.node;
        nodes[n].overlap = n % 50 == 7 || n % 50 == 8; /* the other chain's last node */
        is_large ? larges++ : smalls++;
    }
    float *b[2] = {large.data[1], small.data[1]}, *y[2] = {large.data[2], small.data[2]};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 2000; i++) b[k][i] = (float)(i % 7);
    memset(y[0], 0, (size_t)large.bytes[2]);
    memset(y[1], 0, (size_t)small.bytes[2]);
    if (p.node.tiles < 2 || q.node.tiles != 1) fail("chain: %ld and %ld tiles", (long)p.node.tiles, (long)q.node.tiles);
    eb_status status = eb_run(nodes, 0, LENGTH, p.bases, threads, NULL, NULL);
    int bad = status != EB_OK;
    for (int64_t i = 0; i < large.bytes[2] / 4; i++) bad |= y[0][i] != (float)(larges * (i % 2000 % 7));
    for (int64_t i = 0; i < small.bytes[2] / 4; i++) bad |= y[1][i] != (float)(smalls * (i % 7));
    if (bad) fail("chain: wrong at %d threads", threads);
    prepared_free(&p);
    prepared_free(&q);
    case_end(&large);
    case_end(&small);
}

/* Joins run after every tile of their node: what the tiles leave is poison until they ran. */
static void check_joins(int threads) {
    test_case c;
    prepared p;
    attention_shape s = {1, 2, 2, 1, 4096, 8, 8, NO_MASK, 0, 1, 0, DENSE};
    make_attention(&c, &s);
    case_fill(&c);
    case_prepare(&c, find_kernel("f32_attention__generic_decode"), threads, &p);
    if (p.node.tiles != 16 || p.node.joins != 2) fail("joins: %ld tiles, %ld joins", (long)p.node.tiles, (long)p.node.joins);
    float expected[16], *y = c.data[3 + 1];
    for (int round = 0; round < 200; round++) {
        memset(p.bases[MOST_OPERANDS], 0xff, (size_t)(p.node.shared_bytes + p.node.scratch_bytes * threads));
        eb_status status = eb_run(&p.node, 0, 1, p.bases, round ? threads : 1, NULL, NULL);
        if (round == 0) memcpy(expected, y, sizeof expected);
        if (status != EB_OK || y[0] != y[0] || memcmp(y, expected, sizeof expected) != 0) {
            fail("joins: wrong at %d threads", threads);
            break;
        }
    }
    prepared_free(&p);
    case_end(&c);
}

/* Each tile and each join runs once, and joins run after all tiles. A kernel gets hints: the tile that its thread runs
 * next, whose data it can fetch ahead, and the one before, whose data are near. At two threads the caller takes tiles from the
 * front and the worker from the back, and the hints are exact. At more threads these tiles are probably as many tiles away as
 * there are threads. */
enum { SHARED_TILES = 64, SHARED_JOINS = 16 };
static atomic_int tile_runs[SHARED_TILES + SHARED_JOINS], tiles_done, surprises, sharing_round, sharing_threads;
static _Thread_local int own_round;
static _Thread_local int64_t own_next, own_last;

static eb_status watch_sharing(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    (void)bases, (void)scratch;
    int threads = atomic_load(&sharing_threads), round = atomic_load(&sharing_round);
    atomic_fetch_add(&tile_runs[begin], 1);
    int64_t next = eb_next_tile(begin, end, node->tiles), further = begin + threads;
    int64_t before = eb_tile_before(begin, begin, node->tiles);
    int as_expected = end == begin + 1 && eb_next_tile(begin, begin + 2, begin + 2) == begin + 1;
    as_expected &= eb_tile_before(begin + 1, begin, begin + 2) == begin;
    if (begin >= node->tiles) {
        as_expected &= atomic_load(&tiles_done) == SHARED_TILES;
    } else if (threads == 2) {
        as_expected &= own_round == round ? begin == own_next : begin == 0 || begin == SHARED_TILES - 1;
        as_expected &= before == (own_round == round ? own_last : -1);
        own_next = next;
        own_last = begin;
        own_round = round;
    } else {
        as_expected &= next == (further < SHARED_TILES ? further : -1);
        as_expected &= before == (begin >= threads ? begin - threads : -1);
    }
    if (!as_expected) atomic_fetch_add(&surprises, 1);
    atomic_fetch_add(&tiles_done, begin < node->tiles);
    return EB_OK;
}

static void check_sharing(int threads) {
    static const eb_kernel kernel = {.run = watch_sharing};
    const eb_kernel *const kernels[] = {&kernel};
    const eb_node node = {.tiles = SHARED_TILES, .joins = SHARED_JOINS};
    for (int i = 0; i < SHARED_TILES + SHARED_JOINS; i++) atomic_store(&tile_runs[i], 0);
    atomic_store(&tiles_done, 0);
    atomic_store(&surprises, 0);
    atomic_store(&sharing_threads, threads);
    atomic_fetch_add(&sharing_round, 1);
    int all = 1 + eb_pool_borrow(threads - 1);
    eb_status status = all > 1 ? eb_pool_run(kernels, &node, 0, 1, NULL, NULL, NULL) : EB_OK;
    if (all > 1) eb_pool_return();
    int not_once = 0;
    for (int i = 0; i < SHARED_TILES + SHARED_JOINS; i++) not_once += atomic_load(&tile_runs[i]) != 1;
    if (all != threads || status != EB_OK || not_once || atomic_load(&surprises))
        fail("sharing: %d tiles of %d threads did not run once, %d ran unexpectedly", not_once, threads,
             atomic_load(&surprises));
    if (eb_tile_step != 1) fail("sharing: the next tile is %d further on outside of the pool", (int)eb_tile_step);
}

/* More threads than cores and a busy loop on each: whoever is put aside is waited for or left out, never forgotten. */
static atomic_int stop_spinning;
static void *spin(void *unused) {
    while (!atomic_load(&stop_spinning)) {}
    return unused;
}

static void check_crowd(void) {
    pthread_t threads[2];
    atomic_store(&stop_spinning, 0);
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, spin, NULL);
    for (int i = 0; i < 10; i++) check_chain(MOST_THREADS);
    atomic_store(&stop_spinning, 1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

void test_pool(int with_fork) {
    total.cases++;
    for (int threads = 2; threads <= MOST_THREADS; threads++)
        for (int round = 0; round < 50; round++) check_sharing(threads);
    check_callers();
    if (with_fork) check_fork();
    check_failure(1);
    check_failure(2);
    check_failure(3);
    for (int threads = 1; threads <= MOST_THREADS; threads++) check_chain(threads), check_joins(threads);
    check_crowd();
}
