/* The pool of threads: many callers at once, a fork, timing, failures, more threads than tiles. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "suite.h"

enum { CALLERS = 4, ROUNDS = 60, NODES = 3 };

typedef struct {
    test_case c;
    prepared p;
    float expected[64];
} worker;

static void make_worker(worker *w, int seed) {
    make_binary(&w->c, "add", 40 + seed, 2000, 0, 1);
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
        double seconds[NODES] = {-1, -1, -1};
        eb_status status = eb_run(nodes, 0, NODES, w->p.bases, MOST_THREADS, seconds, NULL);
        int bad = status != EB_OK;
        for (int n = 0; n < NODES; n++) bad |= seconds[n] < 0;
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

/* A failing node stops the run and is named, at any number of threads. */
static void check_failure(int threads) {
    test_case c;
    prepared p;
    case_begin(&c, "embedding", 0, "out of range");
    case_input(&c, EB_F32, DENSE, 1, SHAPE(4, 3000));
    case_input(&c, EB_I64, DENSE, 4, SHAPE(200));
    case_output(&c, EB_F32, DENSE, SHAPE(200, 3000));
    ((int64_t *)c.data[1])[199] = 4;
    case_prepare(&c, find_kernel("any_embedding__generic_rows"), threads, &p);
    eb_node nodes[2] = {p.node, p.node};
    ((int64_t *)c.data[1])[0] = 0;
    int32_t failed = -1;
    eb_status status = eb_run(nodes, 1, 2, p.bases, threads, NULL, &failed);
    if (status != EB_INDEX_OUT_OF_RANGE || failed != 1) fail("failure at %d threads: status %d, node %d", threads, (int)status, failed);
    prepared_free(&p);
    case_end(&c);
}

void test_pool(int with_fork) {
    total.cases++;
    check_callers();
    if (with_fork) check_fork();
    check_failure(1);
    check_failure(3);
}
