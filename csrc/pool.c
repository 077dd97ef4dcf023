/* A persistent pool of threads that runs a list of nodes tile by tile. Knows nothing of what a tile is.
 *
 * One job (a list of nodes) at a time. Its tiles are numbered through, node after node, and are taken in that order:
 * `claim` holds (job number, next tile) in one word, so that taking a tile is one compare-and-swap that fails when the
 * job has changed. A helper that wakes late finds nothing to take and does no harm, and nobody waits for it.
 *
 * Each thread shows the tile that it holds in `held`, before it takes it. So all tiles below the smallest held one and
 * below the next one to be taken are done, and that is all that ordering needs: a node waits until the tiles of every
 * node that it does not overlap with (eb_node.overlap) are done. There are no counters to reset and no barrier.
 *
 * Somebody is late when he holds one tile for much longer than tiles take: the system runs something else on his core.
 * The caller sheds a late helper, who is left out for a pause that doubles while lateness recurs. A helper that waits
 * for somebody late goes to sleep until the next node, which frees a core for him.
 *
 * Helpers spin for a moment between two nodes and after their last job, then sleep.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* processors of a thread */
#endif
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "clock.h"

enum {
    MAX_HELPERS = 255,
    MAX_NODES = 1024,      /* of a job; longer lists are cut, which costs a barrier at each cut */
    MAX_TILES = 1 << 30,   /* of a job, where a cut can help */
    PAUSES = 4,            /* between two looks at the claim: its cache line is wanted by those who work */
    LOOKS = 8,             /* between two at the clock */
    LATE_TILES = 8,        /* late: held for this many average tiles ... */
    SPIN_NS = 30000,       /* longer than the gap between two calls in a loop, shorter than anyone notices */
    LATE_NS = 100000,      /* ... and this; a scheduler's slice is 1 to 4 ms, a migration some 50 us */
    RESERVED_NS = 20000,   /* a lone tile of a chain is the caller's for this long: its data lie in his cache */
    POLL_NS = 50000,       /* sleep of a caller who waits for somebody late */
    FIRST_PAUSE_NS = 2000000, /* one scheduler's slice */
    LAST_PAUSE_NS = 640000000
};
#define CLOSED UINT32_MAX /* a tile that no job has */
#define NOTHING 0         /* held: no tile, since jobs are numbered from 1 */
#define NO_FAILURE UINT64_MAX

typedef struct {
    _Alignas(64) atomic_ullong held; /* job number << 32 | tile */
    int64_t average;                 /* ticks of a tile; this thread's own */
    _Alignas(64) atomic_uint invitations;
    atomic_int shed; /* take no more until the next invitation */
    atomic_int away; /* has left the job, or is asleep, or was not asked */
    atomic_int asleep;
    atomic_llong absent_until, pause; /* ns of the monotonic clock */
    pthread_cond_t wake;
    pthread_t thread;
} member;

static struct {
    _Alignas(64) atomic_ullong claim; /* job number << 32 | next tile */
    _Alignas(64) atomic_ullong failure; /* tile << 32 | status, the smallest: tiles are taken in order, so it is the
                                         * same at any number of threads */
    _Atomic(const eb_kernel *const *) kernels;
    _Atomic(const eb_node *) nodes;
    _Atomic(void *const *) bases;
    _Atomic(eb_profile *) profile;
    atomic_int first, count; /* nodes of the job */
    atomic_int helpers;      /* those with a number up to this take part: there is scratch for them */
    /* A copy, since a plan may be gone while somebody late still looks: node i has tiles [start[i], start[i + 1]) and
     * waits until all tiles below needs[i] are done; those from joins[i] on wait for all below joins[i]. */
    atomic_uint start[MAX_NODES + 1], needs[MAX_NODES], joins[MAX_NODES];
    int borrowed;
    int threads; /* made so far */
    int caller_cpu; /* which helpers keep off; -1: not told yet */
    pthread_mutex_t mutex;
} pool;
static member members[MAX_HELPERS + 1];
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

/* --- where helpers run ---------------------------------------------------------------------------------------------- */

/* Helpers run on any processor that the caller may use but the one that he is on: a system that wakes one of them there,
 * as Linux does after a pause, stops the caller for it. One who may use no other has placed the threads himself. */
static void keep_off_the_caller(void) {
#ifdef __linux__
    cpu_set_t others;
    int cpu = sched_getcpu();
    if (cpu == pool.caller_cpu || cpu < 0 || sched_getaffinity(0, sizeof others, &others) != 0) return;
    pool.caller_cpu = cpu;
    CPU_CLR(cpu, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (int h = 1; h <= pool.threads; h++) pthread_setaffinity_np(members[h].thread, sizeof others, &others);
#endif
}

/* --- who is invited ------------------------------------------------------------------------------------------------ */

/* Ask helper `h` to look for work, unless it is being left out. */
static void invite(int h, int64_t now) {
    member *m = &members[h];
    if (now < LOAD(m->absent_until)) return;
    STORE(m->shed, 0);
    STORE(m->away, 0);
    atomic_fetch_add(&m->invitations, 1);
    if (atomic_load(&m->asleep)) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_signal(&m->wake);
        pthread_mutex_unlock(&pool.mutex);
    }
}

static void invite_away(void) {
    int64_t now = 0;
    for (int h = 1; h <= pool.borrowed; h++) {
        if (!LOAD(members[h].away)) continue;
        if (now == 0) {
            now = eb_nanoseconds();
            keep_off_the_caller();
        }
        invite(h, now);
    }
}

/* Leave helper `h` out for a while: longer than the last time if it did not serve well for that long since. */
static void shed(int h) {
    member *m = &members[h];
    int64_t now = eb_nanoseconds(), pause = LOAD(m->pause);
    if (LOAD(m->shed)) return;
    pause = pause && now - LOAD(m->absent_until) < pause ? 2 * pause : FIRST_PAUSE_NS;
    if (pause > LAST_PAUSE_NS) pause = LAST_PAUSE_NS;
    STORE(m->pause, pause);
    STORE(m->absent_until, now + pause);
    STORE(m->away, 1);
    STORE(m->shed, 1);
}

/* --- waiting for the tiles that a node needs ----------------------------------------------------------------------- */

/* The first tile of job `number` that may not be done, seen after `claim`; whose it is, or -1 if nobody holds it. */
static uint32_t unfinished(unsigned long long claim, int *who) {
    uint32_t number = (uint32_t)(claim >> 32), least = (uint32_t)claim;
    int helpers = LOAD(pool.helpers);
    *who = -1;
    for (int t = 0; t <= helpers; t++) {
        unsigned long long held = LOAD(members[t].held);
        if ((uint32_t)(held >> 32) != number || (uint32_t)held >= least) continue;
        least = (uint32_t)held;
        *who = t;
    }
    return least;
}

typedef struct {
    unsigned long long seen; /* what was being waited for, and since when */
    int64_t since;
    int looks;
} patience;

/* One breath of waiting for `what`. Answers for how many ns it has been the same, 0 when it has not looked. */
static int64_t breathe(patience *p, unsigned long long what) {
    for (int i = 0; i < PAUSES; i++) pause_cpu();
    if (p->since && p->seen == what && ++p->looks % LOOKS) return 0;
    int64_t now = eb_nanoseconds();
    if (!p->since || p->seen != what) *p = (patience){what, now, 0};
    return now - p->since;
}

/* Wait for thread `who`, who holds tile `least`. Answers 0 when a helper had better leave the job. */
static int wait_for(patience *p, int thread, int who, uint32_t least) {
    int64_t waited = breathe(p, (unsigned long long)least << 32 | (uint32_t)who);
    if (waited < LATE_NS || (double)waited < LATE_TILES * tick_ns * (double)members[thread].average) return 1;
    if (thread > 0) return 0;
    if (who > 0) shed(who);
    struct timespec nap = {0, POLL_NS}; /* he may need this very core */
    nanosleep(&nap, NULL);
    return 1;
}

/* --- working ------------------------------------------------------------------------------------------------------- */

static void run_tile(const eb_kernel *const *kernels, const eb_node *nodes, int node, void *const *bases,
                     eb_profile *profile, uint32_t tile, int64_t within, int thread) {
    const eb_node *n = &nodes[node];
    char *scratch = NULL;
    if (n->scratch_bytes) scratch = (char *)bases[n->scratch_buffer] + n->scratch_offset + n->scratch_bytes * thread;
    int64_t start = eb_ticks();
    eb_status status = kernels[n->kernel]->run(n, bases, within, within + 1, scratch);
    int64_t ticks = eb_ticks() - start;
    if (profile) profile->busy[(int64_t)thread * profile->nodes + node] += ticks;
    member *m = &members[thread];
    int64_t most = 4 * m->average + 1000; /* one interrupted tile must not pass for the usual */
    if (m->average == 0) most = ticks;
    m->average += ((ticks < most ? ticks : most) - m->average) / (m->average ? 8 : 1);
    if (status == EB_OK) return;
    unsigned long long failure = (unsigned long long)tile << 32 | (uint32_t)status, least = LOAD(pool.failure);
    while (failure < least && !atomic_compare_exchange_weak(&pool.failure, &least, failure)) {}
}

/* Take and run tiles of job `number` until none is left to take, or this helper had better leave. */
static void work(uint32_t number, int thread) {
    member *me = &members[thread];
    patience p = {0};
    int node = 0;
    uint32_t done = 0;
    for (;;) {
        /* What is read here belongs to job `number` if the swap below succeeds: `post` closes the claim before it
         * writes the next job's description. */
        unsigned long long claim = LOAD(pool.claim);
        const eb_kernel *const *kernels = LOAD(pool.kernels);
        const eb_node *nodes = LOAD(pool.nodes);
        void *const *bases = LOAD(pool.bases);
        eb_profile *profile = LOAD(pool.profile);
        int first = LOAD(pool.first), count = LOAD(pool.count), helpers = LOAD(pool.helpers);
        uint32_t tile = (uint32_t)claim;
        if ((uint32_t)(claim >> 32) != number || thread > helpers || LOAD(pool.failure) != NO_FAILURE) return;
        if (LOAD(me->shed)) return;
        while (node < count && tile >= LOAD(pool.start[node + 1])) node++;
        if (node >= count || tile == CLOSED) return;
        uint32_t start = LOAD(pool.start[node]), tiles = LOAD(pool.start[node + 1]) - start;
        uint32_t joins = LOAD(pool.joins[node]), needs = tile < joins ? LOAD(pool.needs[node]) : joins;
        int who = -1;
        if (done < needs) {
            done = unfinished(claim, &who);
            if (done < needs) {
                if (!wait_for(&p, thread, who, done)) return;
                continue;
            }
        }
        if (thread && tiles == 1) { /* not if the caller is free for it */
            done = unfinished(claim, &who);
            if (done == tile && breathe(&p, claim) < RESERVED_NS) continue;
        }
        STORE(me->held, claim);
        if (!atomic_compare_exchange_strong(&pool.claim, &claim, claim + 1)) {
            STORE(me->held, NOTHING);
            continue;
        }
        p.since = 0;
        if (!thread && tile == start && tiles > 1) invite_away();
        run_tile(kernels, nodes, first + node, bases, profile, tile, (int64_t)(tile - start), thread);
        STORE(me->held, NOTHING);
    }
}

/* Wait until `m` is invited again. */
static unsigned wait_for_invitation(member *m, unsigned seen) {
    int64_t until = eb_nanoseconds() + SPIN_NS;
    while (!LOAD(m->shed)) {
        for (int i = 0; i < PAUSES * LOOKS; i++) {
            unsigned invitations = LOAD(m->invitations);
            if (invitations != seen) return invitations;
            pause_cpu();
        }
        if (eb_nanoseconds() >= until) break;
    }
    pthread_mutex_lock(&pool.mutex);
    atomic_store(&m->asleep, 1); /* before the look below: whoever invites after it sees a sleeper */
    unsigned invitations;
    while ((invitations = atomic_load(&m->invitations)) == seen) pthread_cond_wait(&m->wake, &pool.mutex);
    atomic_store(&m->asleep, 0);
    pthread_mutex_unlock(&pool.mutex);
    return invitations;
}

static void *helper(void *argument) {
    int thread = (int)(intptr_t)argument;
    member *me = &members[thread];
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_invitation(me, seen);
        uint32_t number = (uint32_t)(LOAD(pool.claim) >> 32);
        work(number, thread);
        STORE(me->away, 1);
    }
    return NULL;
}

/* --- jobs ---------------------------------------------------------------------------------------------------------- */

/* Describe nodes[first..last) as the next job. Answers its number and how many nodes fitted. */
static uint32_t post(const eb_kernel *const *kernels, const eb_node *nodes, int32_t first, int32_t last,
                     void *const *bases, eb_profile *profile, int32_t *count) {
    uint32_t number = (uint32_t)(LOAD(pool.claim) >> 32);
    atomic_store(&pool.claim, (unsigned long long)number << 32 | CLOSED);
    uint32_t tiles = 0;
    int32_t n = 0;
    STORE(pool.start[0], 0);
    while (n < MAX_NODES && first + n < last) {
        const eb_node *node = &nodes[first + n];
        if (n > 0 && tiles + node->tiles + node->joins >= MAX_TILES) break;
        STORE(pool.needs[n], node->overlap >= n ? 0 : LOAD(pool.start[n - node->overlap]));
        STORE(pool.joins[n], tiles + (uint32_t)node->tiles);
        tiles += (uint32_t)(node->tiles + node->joins);
        STORE(pool.start[++n], tiles);
    }
    STORE(pool.kernels, kernels);
    STORE(pool.nodes, nodes);
    STORE(pool.bases, bases);
    STORE(pool.profile, profile);
    STORE(pool.first, first);
    STORE(pool.count, n);
    STORE(pool.helpers, pool.borrowed);
    STORE(pool.failure, NO_FAILURE);
    if (++number == 0) number = 1;
    atomic_store(&pool.claim, (unsigned long long)number << 32);
    *count = n;
    return number;
}

/* Nobody takes another tile; then wait for those that are held. */
static void finish(uint32_t number) {
    atomic_exchange(&pool.claim, (unsigned long long)number << 32 | CLOSED);
    patience p = {0};
    for (int who;;) {
        uint32_t least = unfinished((unsigned long long)number << 32 | CLOSED, &who);
        if (who < 0) return;
        wait_for(&p, 0, who, least);
    }
}

static eb_status outcome(int32_t first, int32_t count, int32_t *failed) {
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
        uint32_t number = post(kernels, nodes, first, last, bases, profile, &count);
        int64_t now = eb_nanoseconds();
        keep_off_the_caller();
        for (int h = 1; h <= pool.borrowed; h++) invite(h, now);
        work(number, 0);
        finish(number);
        status = outcome(first, count, failed);
        first += count;
    }
    return status;
}

/* --- the pool itself ----------------------------------------------------------------------------------------------- */

static void reset(void) {
    memset(&pool, 0, sizeof pool);
    memset(members, 0, sizeof members);
    atomic_store(&pool.claim, CLOSED);
    pthread_mutex_init(&pool.mutex, NULL);
    for (int i = 0; i <= MAX_HELPERS; i++) pthread_cond_init(&members[i].wake, NULL);
}

/* After a fork the child has no helpers, and a thread that it does not have may hold the pool or its mutex. */
static void forget(void) {
    reset();
    atomic_flag_clear(&busy);
}

static void prepare(void) {
    reset();
    tick_ns = 1e9 * eb_tick_seconds();
    pthread_atfork(NULL, NULL, forget);
}

int eb_pool_borrow(int helpers) {
    if (atomic_flag_test_and_set(&busy)) return 0;
    pthread_once(&once, prepare);
    if (helpers > MAX_HELPERS) helpers = MAX_HELPERS;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    while (pool.threads < helpers) {
        int h = pool.threads + 1;
        if (pthread_create(&members[h].thread, &attributes, helper, (void *)(intptr_t)h) != 0) break;
        pool.threads = h;
        pool.caller_cpu = -1;
    }
    pthread_attr_destroy(&attributes);
    pool.borrowed = helpers < pool.threads ? helpers : pool.threads;
    if (pool.borrowed == 0) atomic_flag_clear(&busy);
    return pool.borrowed;
}

void eb_pool_return(void) { atomic_flag_clear(&busy); }
