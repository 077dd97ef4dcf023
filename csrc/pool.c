/* A persistent pool of worker threads that runs a list of nodes tile by tile. It does not know what a tile computes.
 *
 * The pool runs one job (a list of nodes) at a time. The tiles of a job are divided into chunks, which are numbered
 * consecutively, node after node, and are claimed in that order. A chunk is one tile unless its node has very many.
 * `claim` holds (job number, next chunk) in one word, so that claiming a chunk is one compare-and-swap, which fails when
 * the job has changed. A worker that wakes up late finds nothing to claim, and no thread waits for it. Numbers count
 * claims: which tiles of the node a claim stands for is another question (`choose_chunk`).
 *
 * Each thread publishes the chunk that it runs in `held`, before it claims it. So all chunks below the smallest held one
 * and below the next one to be claimed are done. Ordering needs nothing more: a node waits until the tiles of every
 * node that it does not overlap with (eb_node.overlap) are done. There are no counters to reset and no barriers.
 *
 * A thread that holds one chunk for much longer than chunks take counts as descheduled: the system runs another thread
 * on its core. The caller excludes a descheduled worker from jobs for a pause, which doubles while this recurs. A worker
 * that waits for a descheduled thread sleeps until the next node, which frees a core for that thread.
 *
 * Workers spin for a moment between two nodes and after their last job, then sleep. They block all signals but those
 * that a fault of their own raises. The child of a fork starts with an empty pool.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* processors of a thread */
#endif
#include "pool.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "clock.h"
#include "sharing.h"

enum {
    MAX_WORKERS = 255,
    MAX_NODES = 1024,      /* of a job; a longer list is run as several jobs, with a barrier between them */
    CHUNK_BITS = 20,       /* the tiles of a node are at most 2^20 chunks, and so are its joins */
    PAUSES = 4,            /* pause instructions between two loads of a shared word, which other threads write */
    CHECKS = 8,            /* loads between two readings of the clock */
    LATE_CHUNKS = 8,       /* a thread is descheduled if it holds a chunk for this many average chunks ... */
    LATE_NS = 100000,      /* ... and for this long; a scheduler's slice is 1 to 4 ms, a migration some 50 us */
    SPIN_NS = 30000,       /* longer than the gap between two calls in a loop */
    RESERVED_NS = 20000,   /* the caller's lead for a node of one chunk: its data are in the caller's cache */
    POLL_NS = 50000,       /* sleep of a caller that waits for a descheduled thread */
    FIRST_PAUSE_NS = 2000000, /* one scheduler's slice */
    LAST_PAUSE_NS = 640000000
};
#define CLOSED UINT32_MAX /* a chunk that no job has */
#define NOTHING 0         /* held: no chunk, since jobs are numbered from 1 */
#define NO_FAILURE UINT64_MAX
static_assert((INT64_C(2) << CHUNK_BITS) * MAX_NODES < CLOSED, "the chunks of a job are numbered in 32 bits");

typedef struct {
    _Alignas(64) atomic_ullong held; /* job number << 32 | chunk */
    int64_t average;                 /* ticks of a chunk; read and written by this thread alone, as the next two */
    unsigned long long place;        /* job number << 32 | first of the tiles, or joins, among which it claimed last */
    uint32_t taken;                  /* how many of them this thread has claimed */
    _Alignas(64) atomic_uint notifications;
    atomic_int excluded; /* claims nothing until the next notification */
    atomic_int idle;     /* has left the job, or sleeps, or was not notified */
    atomic_int asleep;
    atomic_llong excluded_until, pause; /* ns of the monotonic clock */
    pthread_cond_t wake;
    pthread_t thread;
} member;

static struct {
    _Alignas(64) atomic_ullong claim; /* job number << 32 | next chunk */
    _Alignas(64) atomic_ullong failure; /* chunk << 32 | status, the smallest; so it names the first node that fails, at
                                         * any number of threads */
    _Atomic(const eb_kernel *const *) kernels;
    _Atomic(const eb_node *) nodes;
    _Atomic(void *const *) bases;
    _Atomic(eb_profile *) profile;
    atomic_ullong control; /* the caller's floating-point control state */
    atomic_int first, count; /* nodes of the job */
    atomic_int workers;      /* workers up to this number take part: there is scratch for them */
    /* A copy, since a plan may be freed while a worker still reads: node i has chunks [start[i], start[i + 1]) and
     * waits until all chunks below needs[i] are done; those from joins[i] on wait for all below joins[i]. */
    atomic_uint start[MAX_NODES + 1], needs[MAX_NODES], joins[MAX_NODES];
    int borrowed;
    int created;    /* workers so far */
    int caller_cpu; /* which workers do not use; -1: not set yet */
    pthread_mutex_t mutex;
} pool;
static member members[MAX_WORKERS + 1];
static atomic_flag busy = ATOMIC_FLAG_INIT;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static double tick_ns = 1;

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#define LOAD(place) atomic_load_explicit(&(place), memory_order_acquire)
#define STORE(place, value) atomic_store_explicit(&(place), (value), memory_order_release)

/* --- floating-point control state ---------------------------------------------------------------------------------- */

/* Rounding mode, flushing of subnormal numbers and exception masks of the calling thread; no status flags, which
 * arithmetic changes. */
static inline uint64_t get_control(void) {
#if defined(__SSE__)
    return __builtin_ia32_stmxcsr() & ~0x3fu;
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    return control;
#else
    return 0;
#endif
}

static inline void set_control(uint64_t control) {
#if defined(__SSE__)
    __builtin_ia32_ldmxcsr((unsigned)control);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
#else
    (void)control;
#endif
}

/* --- chunks -------------------------------------------------------------------------------------------------------- */

/* Tiles of a chunk (the last one may be smaller), for a node of `tiles` tiles. */
static inline int64_t chunk_size(int64_t tiles) { return (tiles >> CHUNK_BITS) + 1; }

static inline uint32_t chunk_count(int64_t tiles) {
    int64_t size = chunk_size(tiles);
    return (uint32_t)(size == 1 ? tiles : (tiles + size - 1) / size);
}

/* The tiles [begin, end) of chunk `chunk` of a node. No chunk has both tiles and joins. */
static void find_tiles(const eb_node *node, uint32_t chunk, int64_t *begin, int64_t *end) {
    int64_t first = 0, tiles = node->tiles;
    uint32_t chunks = chunk_count(tiles);
    if (chunk >= chunks) {
        first = tiles;
        tiles = node->joins;
        chunk -= chunks;
    }
    int64_t size = chunk_size(tiles), from = chunk * size;
    *begin = first + from;
    *end = first + (tiles - from < size ? tiles : from + size);
}

/* --- processors of workers ----------------------------------------------------------------------------------------- */

/* Let workers run on every processor that the caller may use but the one that it runs on: a system that wakes a worker
 * there, as Linux does after a pause, suspends the caller for it. If the caller may use one processor only, the program
 * has placed its threads itself. */
static void set_worker_affinity(void) {
#ifdef __linux__
    cpu_set_t others;
    int cpu = sched_getcpu();
    if (cpu == pool.caller_cpu || cpu < 0 || sched_getaffinity(0, sizeof others, &others) != 0) return;
    pool.caller_cpu = cpu;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (int w = 1; w <= pool.created; w++) pthread_setaffinity_np(members[w].thread, sizeof others, &others);
#endif
}

/* --- notifying and excluding workers ------------------------------------------------------------------------------- */

/* Tell worker `w` to look for work, unless it is excluded. */
static void notify(int w, int64_t now) {
    member *m = &members[w];
    if (now < LOAD(m->excluded_until)) return;
    STORE(m->excluded, 0);
    STORE(m->idle, 0);
    atomic_fetch_add(&m->notifications, 1);
    if (atomic_load(&m->asleep)) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_signal(&m->wake);
        pthread_mutex_unlock(&pool.mutex);
    }
}

static void notify_idle(void) {
    int64_t now = 0;
    for (int w = 1; w <= pool.borrowed; w++) {
        if (!LOAD(members[w].idle)) continue;
        if (now == 0) {
            now = eb_nanoseconds();
            set_worker_affinity();
        }
        notify(w, now);
    }
}

/* Exclude worker `w` for a pause: twice the last one if that one ended less than its own length ago. */
static void exclude(int w) {
    member *m = &members[w];
    int64_t now = eb_nanoseconds(), pause = LOAD(m->pause);
    if (LOAD(m->excluded)) return;
    pause = pause && now - LOAD(m->excluded_until) < pause ? 2 * pause : FIRST_PAUSE_NS;
    if (pause > LAST_PAUSE_NS) pause = LAST_PAUSE_NS;
    STORE(m->pause, pause);
    STORE(m->excluded_until, now + pause);
    STORE(m->idle, 1);
    STORE(m->excluded, 1);
}

/* --- waiting for the chunks that a node needs ---------------------------------------------------------------------- */

/* Returns the first chunk of the job in `claim` that may not be done, and in `who` the thread that holds it: -1 if it is
 * `claim`'s own, which no thread holds. */
static uint32_t find_unfinished(unsigned long long claim, int *who) {
    uint32_t number = (uint32_t)(claim >> 32), least = (uint32_t)claim;
    int workers = LOAD(pool.workers);
    *who = -1;
    for (int t = 0; t <= workers; t++) {
        unsigned long long held = LOAD(members[t].held);
        if ((uint32_t)(held >> 32) != number || (uint32_t)held >= least) continue;
        least = (uint32_t)held;
        *who = t;
    }
    return least;
}

typedef struct {
    unsigned long long awaited; /* identifies what is waited for */
    int64_t since;              /* 0: not waiting */
    int checks;
} wait_state;

/* Pause once while waiting for `awaited`. Returns for how many ns it has been the same; 0 if the clock was not read. */
static int64_t wait_briefly(wait_state *wait, unsigned long long awaited) {
    for (int i = 0; i < PAUSES; i++) pause_cpu();
    if (wait->since && wait->awaited == awaited && ++wait->checks % CHECKS) return 0;
    int64_t now = eb_nanoseconds();
    if (!wait->since || wait->awaited != awaited) *wait = (wait_state){awaited, now, 0};
    return now - wait->since;
}

/* Wait on `thread` for thread `who`, which holds chunk `least`. Returns 0 if a worker should leave the job. */
static int wait_for_thread(wait_state *wait, int thread, int who, uint32_t least) {
    int64_t waited = wait_briefly(wait, (unsigned long long)least << 32 | (uint32_t)who);
    if (waited < LATE_NS || (double)waited < LATE_CHUNKS * tick_ns * (double)members[thread].average) return 1;
    if (thread > 0) return 0;
    if (who > 0) exclude(who);
    struct timespec nap = {0, POLL_NS}; /* the descheduled thread may need this core */
    nanosleep(&nap, NULL);
    return 1;
}

/* --- running chunks ------------------------------------------------------------------------------------------------ */

static void run_chunk(const eb_kernel *const *kernels, const eb_node *nodes, int node, void *const *bases,
                      eb_profile *profile, uint32_t chunk, uint32_t within, int thread) {
    const eb_node *n = &nodes[node];
    char *scratch = NULL;
    if (n->scratch_bytes) scratch = (char *)bases[n->scratch_buffer] + n->scratch_offset + n->scratch_bytes * thread;
    int64_t begin, end;
    find_tiles(n, within, &begin, &end);
    int64_t start = eb_ticks();
    eb_status status = kernels[n->kernel]->run(n, bases, begin, end, scratch);
    int64_t ticks = eb_ticks() - start;
    if (profile) profile->busy[(int64_t)thread * profile->nodes + node] += ticks;
    member *m = &members[thread];
    int64_t most = 4 * m->average + 1000; /* limits what one interrupted chunk adds to the average */
    if (m->average == 0) most = ticks;
    m->average += ((ticks < most ? ticks : most) - m->average) / (m->average ? 8 : 1);
    if (status == EB_OK) return;
    unsigned long long failure = (unsigned long long)chunk << 32 | (uint32_t)status, least = LOAD(pool.failure);
    while (failure < least && !atomic_compare_exchange_weak(&pool.failure, &least, failure)) {}
}

/* The chunk that a claim stands for, among the `chunks` chunks of the tiles, or of the joins, of a node. `within` is how
 * many of them were claimed before; `place` says which tiles or joins these are. Of two threads the caller takes chunks
 * from the front and the worker from the back. So each thread works on the same part of most tensors in every node, and
 * its cache holds what it wrote there. Each claim takes one chunk, from the front or from the back. There are as many
 * claims as chunks, so no chunk is taken twice. */
static uint32_t choose_chunk(member *me, int thread, int workers, unsigned long long place, uint32_t within,
                             uint32_t chunks) {
    if (workers != 1) return within;
    if (me->place != place) me->taken = 0;
    me->place = place;
    uint32_t taken = me->taken++;
    return thread == 0 ? taken : chunks - 1 - taken;
}

_Thread_local int32_t eb_tile_step = 1;

/* Claim and run chunks of job `number` until none is left to claim, or until this worker should leave the job. */
static void run_job(uint32_t number, int thread) {
    member *me = &members[thread];
    wait_state wait = {0};
    uint64_t own_control = get_control();
    int node = 0;
    uint32_t done = 0;
    for (;;) {
        /* What is read here belongs to job `number` if the swap below succeeds: `post_job` closes the claim before it
         * writes the next job's description. */
        unsigned long long claim = LOAD(pool.claim);
        const eb_kernel *const *kernels = LOAD(pool.kernels);
        const eb_node *nodes = LOAD(pool.nodes);
        void *const *bases = LOAD(pool.bases);
        eb_profile *profile = LOAD(pool.profile);
        uint64_t control = LOAD(pool.control);
        int first = LOAD(pool.first), count = LOAD(pool.count), workers = LOAD(pool.workers);
        uint32_t chunk = (uint32_t)claim;
        if ((uint32_t)(claim >> 32) != number || thread > workers || LOAD(pool.failure) != NO_FAILURE) return;
        if (LOAD(me->excluded)) return;
        while (node < count && chunk >= LOAD(pool.start[node + 1])) node++;
        if (node >= count || chunk == CLOSED) return;
        uint32_t start = LOAD(pool.start[node]), chunks = LOAD(pool.start[node + 1]) - start;
        uint32_t joins = LOAD(pool.joins[node]), needs = chunk < joins ? LOAD(pool.needs[node]) : joins;
        int who = -1;
        if (done < needs) {
            done = find_unfinished(claim, &who);
            if (done < needs) {
                if (!wait_for_thread(&wait, thread, who, done)) return;
                continue;
            }
        }
        if (thread && chunks == 1) { /* the caller's, if the caller is free to run it */
            done = find_unfinished(claim, &who);
            if (done == chunk && wait_briefly(&wait, claim) < RESERVED_NS) continue;
        }
        STORE(me->held, claim);
        if (!atomic_compare_exchange_strong(&pool.claim, &claim, claim + 1)) {
            STORE(me->held, NOTHING);
            continue;
        }
        wait.since = 0;
        eb_tile_step = workers != 1 ? workers + 1 : thread ? -1 : 1;
        if (control != own_control) set_control(own_control = control); /* bits must not depend on the thread */
        if (!thread && chunk == start && chunks > 1) notify_idle();
        uint32_t from = chunk < joins ? start : joins, end = chunk < joins ? joins : start + chunks;
        unsigned long long place = (unsigned long long)number << 32 | from;
        uint32_t chosen = from + choose_chunk(me, thread, workers, place, chunk - from, end - from);
        run_chunk(kernels, nodes, first + node, bases, profile, chunk, chosen - start, thread);
        STORE(me->held, NOTHING);
    }
}

/* Wait until `m` has a notification that it has not `seen`. Returns how many it has then. */
static unsigned wait_for_notification(member *m, unsigned seen) {
    int64_t until = eb_nanoseconds() + SPIN_NS;
    while (!LOAD(m->excluded)) {
        for (int i = 0; i < PAUSES * CHECKS; i++) {
            unsigned notifications = LOAD(m->notifications);
            if (notifications != seen) return notifications;
            pause_cpu();
        }
        if (eb_nanoseconds() >= until) break;
    }
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&m->asleep, 1); /* before the load below: a thread that notifies after it sees a sleeping worker */
    unsigned notifications;
    while ((notifications = atomic_load(&m->notifications)) == seen) pthread_cond_wait(&m->wake, &pool.mutex);
    atomic_store(&m->asleep, 0);
    pthread_mutex_unlock(&pool.mutex);
    return notifications;
}

static void *run_worker(void *argument) {
    int thread = (int)(intptr_t)argument;
    member *me = &members[thread];
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_notification(me, seen);
        uint32_t number = (uint32_t)(LOAD(pool.claim) >> 32);
        run_job(number, thread);
        STORE(me->idle, 1);
    }
    return NULL;
}

/* --- jobs ---------------------------------------------------------------------------------------------------------- */

/* Describe nodes[first..last), or as many of them as fit, as the next job. Returns its number; `count` receives how many
 * nodes it has. */
static uint32_t post_job(const eb_kernel *const *kernels, const eb_node *nodes, int32_t first, int32_t last,
                         void *const *bases, eb_profile *profile, int32_t *count) {
    uint32_t number = (uint32_t)(LOAD(pool.claim) >> 32);
    atomic_store(&pool.claim, (unsigned long long)number << 32 | CLOSED);
    uint32_t chunks = 0;
    int32_t n = 0;
    STORE(pool.start[0], 0);
    while (n < MAX_NODES && first + n < last) {
        const eb_node *node = &nodes[first + n];
        STORE(pool.needs[n], node->overlap >= n ? 0 : LOAD(pool.start[n - node->overlap]));
        chunks += chunk_count(node->tiles);
        STORE(pool.joins[n], chunks);
        chunks += chunk_count(node->joins);
        STORE(pool.start[++n], chunks);
    }
    STORE(pool.kernels, kernels);
    STORE(pool.nodes, nodes);
    STORE(pool.bases, bases);
    STORE(pool.profile, profile);
    STORE(pool.control, get_control());
    STORE(pool.first, first);
    STORE(pool.count, n);
    STORE(pool.workers, pool.borrowed);
    STORE(pool.failure, NO_FAILURE);
    if (++number == 0) number = 1;
    atomic_store(&pool.claim, (unsigned long long)number << 32);
    *count = n;
    return number;
}

/* Let no thread claim another chunk, then wait for those that are held. */
static void finish_job(uint32_t number) {
    atomic_exchange(&pool.claim, (unsigned long long)number << 32 | CLOSED);
    wait_state wait = {0};
    for (int who;;) {
        uint32_t least = find_unfinished((unsigned long long)number << 32 | CLOSED, &who);
        if (who < 0) return;
        wait_for_thread(&wait, 0, who, least);
    }
}

/* The status of the finished job, whose nodes are nodes[first..first + count). */
static eb_status job_status(int32_t first, int32_t count, int32_t *failed) {
    unsigned long long failure = LOAD(pool.failure);
    if (failure == NO_FAILURE) return EB_OK;
    int32_t node = 0;
    while (node < count - 1 && (uint32_t)(failure >> 32) >= LOAD(pool.start[node + 1])) node++;
    if (failed) *failed = first + node;
    return (eb_status)(uint32_t)failure;
}

eb_status eb_pool_run(const eb_kernel *const *kernels, const eb_node *nodes, int32_t first, int32_t last,
                      void *const *bases, eb_profile *profile, int32_t *failed) {
    eb_status status = EB_OK;
    while (first < last && status == EB_OK) {
        int32_t count;
        uint32_t number = post_job(kernels, nodes, first, last, bases, profile, &count);
        int64_t now = eb_nanoseconds();
        set_worker_affinity();
        for (int w = 1; w <= pool.borrowed; w++) notify(w, now);
        run_job(number, 0);
        finish_job(number);
        eb_tile_step = 1;
        status = job_status(first, count, failed);
        first += count;
    }
    return status;
}

/* --- the pool itself ----------------------------------------------------------------------------------------------- */

static void reset_pool(void) {
    memset(&pool, 0, sizeof pool);
    memset(members, 0, sizeof members);
    atomic_store(&pool.claim, CLOSED);
    pthread_mutex_init(&pool.mutex, NULL);
    for (int i = 0; i <= MAX_WORKERS; i++) pthread_cond_init(&members[i].wake, NULL);
}

/* In the child of a fork there are no workers, and the pool or its mutex may be held by a thread of the parent that the
 * child does not have. The job that such a thread runs belongs to the parent alone. */
static void reset_after_fork(void) {
    reset_pool();
    atomic_flag_clear(&busy);
}

static void init_pool(void) {
    pthread_atfork(NULL, NULL, reset_after_fork);
    reset_pool();
    tick_ns = 1e9 * eb_tick_seconds();
}

/* Create worker `w`. It inherits its signal mask, so no signal reaches it before the mask is set. Signals that a fault
 * of the thread itself raises stay unblocked: blocked, they end the process before any handler, such as that of Python's
 * faulthandler, has run. */
static int create_worker(int w) {
    static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigset_t blocked, before;
    pthread_attr_t attributes;
    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) sigdelset(&blocked, faults[i]);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int error = pthread_create(&members[w].thread, &attributes, run_worker, (void *)(intptr_t)w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

int eb_pool_borrow(int workers) {
    pthread_once(&once, init_pool); /* before `busy` is set: from here on a fork clears it in the child */
    if (atomic_flag_test_and_set(&busy)) return 0;
    if (workers > MAX_WORKERS) workers = MAX_WORKERS;
    while (pool.created < workers && create_worker(pool.created + 1) == 0) {
        pool.created++;
        pool.caller_cpu = -1;
    }
    pool.borrowed = workers < pool.created ? workers : pool.created;
    if (pool.borrowed == 0) atomic_flag_clear(&busy);
    return pool.borrowed;
}

void eb_pool_return(void) { atomic_flag_clear(&busy); }
