/* One node under test: described in a few lines, filled with random numbers, run by any kernel, compared with the reference
 * kernel. The lists of cases and the driver that walks them: cases.c. */
#ifndef CASE_H
#define CASE_H

#include "engine.h"
#include "ops.h"

enum { MOST_OPERANDS = 12, MOST_THREADS = 4, MOST_EDITS = 3 };

/* How an operand lies in memory. */
typedef enum {
    DENSE,
    PADDED,   /* a gap behind every row of the last axis */
    SWAPPED,  /* the last two axes lie the other way round */
    SCATTERED /* a gap behind every element */
} layout;

/* What a case is for. */
enum {
    CHECKED = 1, /* test_kernels compares every kernel of the op with the reference kernel */
    TIMED = 2    /* `test_kernels bench` times it */
};

/* A timed case is also checked if it needs at most this many multiply-adds and its operands at most this many bytes: then the
 * reference kernel takes milliseconds. */
enum { MOST_CHECKED_WORK = 5 << 20 };

typedef struct test_case test_case;
/* Changes the numbers of a filled case; `a` and `b` are those of case_edit. */
typedef void edit_function(test_case *c, int64_t a, int64_t b);

struct test_case {
    char name[200]; /* begins with the op; unique, as it seeds the random numbers */
    const char *op;
    eb_node node;
    eb_tensor operands[MOST_OPERANDS];
    void *data[MOST_OPERANDS + 1]; /* one buffer an operand, NULL before case_fill; the last one is scratch */
    int64_t bytes[MOST_OPERANDS];
    double scale[MOST_OPERANDS]; /* of the random numbers */
    int64_t ints[64];
    double reals[4];
    double tolerance;  /* relative to the larger of 1 and the value; 0: equal bits */
    int in_place;      /* the output takes over this input's buffer, or -1 */
    unsigned constant; /* bit i: input i may be packed */
    unsigned specials; /* bit i: input i holds NaN, infinities and huge numbers */
    unsigned roles;    /* CHECKED, TIMED or both */
    double flops;      /* of the op, where the case is timed */
    int n_edits;
    struct {
        edit_function *edit;
        int64_t a, b;
    } edits[MOST_EDITS];
};

/* --- describing cases: no memory yet --- */

#define SHAPE(...) (int)(sizeof((int64_t[]){__VA_ARGS__}) / 8), (const int64_t[]){__VA_ARGS__}
#define SCALAR 0, NULL

void case_begin(test_case *c, const char *op, double tolerance, const char *format, ...);
/* Appends to the name what the function that began the case does not know. */
void case_note(test_case *c, const char *format, ...);
/* An operand; floats are uniform in [-scale, scale), integers in [0, scale). Inputs first, then the outputs. */
eb_tensor *case_input(test_case *c, eb_dtype dtype, layout layout, double scale, int rank, const int64_t *shape);
void case_absent(test_case *c);
/* Has input `i`, which was described as floats, stored in an encoding with channels at, or groups along, `axis`. Comes behind
 * all inputs of the op, as its scales and zero points do, and before the output. */
void case_encode(test_case *c, int i, const char *encoding, int axis);
void case_output(test_case *c, eb_dtype dtype, layout layout, int rank, const int64_t *shape);
/* A list attribute: one number an axis, zeros behind the last. */
void case_ints(test_case *c, int position, int count, const int64_t *numbers);
/* Has case_fill put NaN, both infinities and both zeros at random places of input `i`. */
void case_specials(test_case *c, int i);
/* Has case_fill change the random numbers, in the order of the calls. */
void case_edit(test_case *c, edit_function *edit, int64_t a, int64_t b);
/* Makes a described case a timed one, which has this name after its op. `flops` are those of the op; 0 where it only moves
 * data. A case of little work stays a checked one as well. */
void case_timed(test_case *c, double flops, const char *format, ...);

/* Allocates the operands and fills them with numbers that depend on the case's name alone. */
void case_fill(test_case *c);
void case_end(test_case *c); /* frees the buffers */

double random_unit(void); /* [0, 1) */
int64_t random_below(int64_t limit);
void random_seed(uint64_t seed);
uint64_t hash_name(const char *name);

/* --- running them --- */

/* Run the filled case by every kernel of its op that this machine has and that takes it, at 1 and at 3 threads, and compare
 * each with the reference kernel. */
void case_check(const test_case *c);

/* Plan and pack `c` for kernel `k`; answers the status. On EB_OK `packed[i]` holds the packed input i or NULL, `bases`
 * is complete, and run_prepared runs it. */
typedef struct {
    eb_node node;
    eb_tensor operands[MOST_OPERANDS];
    void *packed[MOST_OPERANDS];
    void *bases[MOST_OPERANDS + 1];
} prepared;
eb_status case_prepare(const test_case *c, int32_t k, int threads, prepared *p);
void prepared_free(prepared *p);
/* The outputs of kernel `k`, one behind the other, in new memory, to be freed by the caller; NULL where the kernel does not take the case. */
char *case_run(const test_case *c, int32_t k, int threads, eb_status *status);

int64_t tensor_bytes(const eb_tensor *t); /* from the first to past the last element */
int32_t find_kernel(const char *name);    /* -1 where there is none */
int32_t find_reference(const char *op);   /* the kernel that defines an op; -1 where there is none */
int is_isa_here(const char *isa);         /* this machine has the instruction set */
int runs_here(int32_t k);                 /* ... that of the kernel */

/* Counters and the report. */
typedef struct {
    long cases, runs, failures;
} totals;
extern totals total;
void fail(const char *format, ...);

/* Names of kernels that took part, one count a row of the registry. */
extern long kernel_runs[];

#endif
