/* A persistent pool of threads with dynamic scheduling of tiles. Knows nothing of what a tile is.
 *
 * One job at a time. `claim` holds (job number, next tile) in one word, so that taking a tile is one
 * compare-and-swap that fails when the job has changed: a helper that wakes late finds nothing to take and does no
 * harm, and nobody waits for it. A job is finished when its tiles are, not when its helpers are: a helper that the
 * system has put aside delays the run by at most the one tile that it holds.
 *
 * Helpers spin for a moment after their last job (the next node of a run comes within microseconds), then sleep.
 */
#include "pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum {
    MAX_HELPERS = 255,
    SPIN_NANOSECONDS = 30000, /* longer than the gap between two nodes of a run, shorter than anyone notices */
    SPINS_A_LOOK = 64,        /* pauses between two looks at the clock */
    SPINS_BEFORE_YIELD = 20000
};
#define CLOSED UINT32_MAX /* a tile that no job has */

typedef struct {
    _Atomic(const eb_kernel *) kernel;
    _Atomic(const eb_node *) node;
    _Atomic(void *const *) bases;
    atomic_int helpers; /* helpers with a smaller number take part */
    atomic_llong tiles;
} job;

static struct {
    _Alignas(64) atomic_ullong claim; /* job number << 32 | next tile */
    _Alignas(64) atomic_llong done;   /* tiles finished */
    _Alignas(64) atomic_int status;   /* the first answer that is not EB_OK */
    atomic_int sleepers;
    job job;
    int borrowed_helpers;
    int threads; /* made so far */
    pthread_mutex_t mutex;
    pthread_cond_t wake;
} pool;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static inline void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static int64_t nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Take and run tiles of job `number` until none is left. */
static void work(uint32_t number, int thread) {
    unsigned long long claim = atomic_load_explicit(&pool.claim, memory_order_acquire);
    for (;;) {
        /* What is read here belongs to job `number` if the swap below succeeds: `post` closes the claim before it
         * writes the next job's description. */
        const eb_kernel *kernel = atomic_load_explicit(&pool.job.kernel, memory_order_acquire);
        const eb_node *node = atomic_load_explicit(&pool.job.node, memory_order_acquire);
        void *const *bases = atomic_load_explicit(&pool.job.bases, memory_order_acquire);
        int helpers = atomic_load_explicit(&pool.job.helpers, memory_order_acquire);
        long long tiles = atomic_load_explicit(&pool.job.tiles, memory_order_acquire);
        uint32_t tile = (uint32_t)claim;
        if ((uint32_t)(claim >> 32) != number || tile >= tiles || thread > helpers) return;
        if (!atomic_compare_exchange_weak_explicit(&pool.claim, &claim, claim + 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        char *scratch = NULL;
        if (node->scratch_bytes)
            scratch = (char *)bases[node->scratch_buffer] + node->scratch_offset + node->scratch_bytes * thread;
        eb_status status = kernel->run(node, bases, tile, (int64_t)tile + 1, scratch);
        if (status != EB_OK) {
            int ok = EB_OK;
            atomic_compare_exchange_strong(&pool.status, &ok, (int)status);
        }
        atomic_fetch_add_explicit(&pool.done, 1, memory_order_release);
        claim = atomic_load_explicit(&pool.claim, memory_order_acquire);
    }
}

/* Answers the number of a job other than `seen`. */
static uint32_t wait_for_job(uint32_t seen) {
    int64_t until = nanoseconds() + SPIN_NANOSECONDS;
    do {
        for (int i = 0; i < SPINS_A_LOOK; i++) {
            uint32_t number = (uint32_t)(atomic_load_explicit(&pool.claim, memory_order_acquire) >> 32);
            if (number != seen) return number;
            pause_cpu();
        }
    } while (nanoseconds() < until);
    pthread_mutex_lock(&pool.mutex);
    atomic_fetch_add(&pool.sleepers, 1); /* before the look below: whoever posts after it sees a sleeper */
    uint32_t number;
    while ((number = (uint32_t)(atomic_load(&pool.claim) >> 32)) == seen) pthread_cond_wait(&pool.wake, &pool.mutex);
    atomic_fetch_sub(&pool.sleepers, 1);
    pthread_mutex_unlock(&pool.mutex);
    return number;
}

static void *helper(void *argument) {
    int thread = (int)(intptr_t)argument;
    uint32_t number = 0;
    for (;;) {
        number = wait_for_job(number);
        work(number, thread);
    }
    return NULL;
}

/* Start a new job; `tiles` 0 only wakes the helpers, so that they spin when the first real job comes. */
static uint32_t post(const eb_kernel *kernel, const eb_node *node, void *const *bases, int64_t tiles) {
    uint32_t number = (uint32_t)(atomic_load_explicit(&pool.claim, memory_order_relaxed) >> 32);
    atomic_store(&pool.claim, (unsigned long long)number << 32 | CLOSED);
    atomic_store_explicit(&pool.job.kernel, kernel, memory_order_release);
    atomic_store_explicit(&pool.job.node, node, memory_order_release);
    atomic_store_explicit(&pool.job.bases, bases, memory_order_release);
    atomic_store_explicit(&pool.job.helpers, pool.borrowed_helpers, memory_order_release);
    atomic_store_explicit(&pool.job.tiles, tiles, memory_order_release);
    atomic_store_explicit(&pool.done, 0, memory_order_relaxed);
    atomic_store_explicit(&pool.status, EB_OK, memory_order_relaxed);
    number++;
    atomic_store(&pool.claim, (unsigned long long)number << 32);
    if (atomic_load(&pool.sleepers) > 0) {
        pthread_mutex_lock(&pool.mutex);
        pthread_cond_broadcast(&pool.wake);
        pthread_mutex_unlock(&pool.mutex);
    }
    return number;
}

eb_status eb_pool_run(const eb_kernel *kernel, const eb_node *node, void *const *bases) {
    uint32_t number = post(kernel, node, bases, node->tiles);
    work(number, 0);
    for (int spins = 0; atomic_load_explicit(&pool.done, memory_order_acquire) < node->tiles; spins++) {
        if (spins < SPINS_BEFORE_YIELD)
            pause_cpu();
        else
            sched_yield(); /* a helper was put aside in the middle of a tile: let it have this core */
    }
    return (eb_status)atomic_load(&pool.status);
}

static void reset(void) {
    memset(&pool, 0, sizeof pool);
    pthread_mutex_init(&pool.mutex, NULL);
    pthread_cond_init(&pool.wake, NULL);
}

/* After a fork the child has no helpers, and a thread that it does not have may hold the pool or its mutex. */
static void forget(void) {
    reset();
    atomic_flag_clear(&busy);
}

static void prepare(void) {
    reset();
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
        pthread_t thread;
        if (pthread_create(&thread, &attributes, helper, (void *)(intptr_t)(pool.threads + 1)) != 0) break;
        pool.threads++;
    }
    pthread_attr_destroy(&attributes);
    pool.borrowed_helpers = helpers < pool.threads ? helpers : pool.threads;
    if (pool.borrowed_helpers == 0)
        atomic_flag_clear(&busy);
    else
        post(NULL, NULL, NULL, 0);
    return pool.borrowed_helpers;
}

void eb_pool_return(void) { atomic_flag_clear(&busy); }
