/* The ABI: everything Python hands to C, and everything C hands back. Nothing here knows Python.
 *
 * A plan is a list of nodes in execution order. A node names a kernel of the registry, its operands and its
 * attributes. Operands lie in buffers; a call brings one base pointer a buffer (`bases`): the arena, the call's inputs
 * and outputs, the weights. So a plan is immutable and any number of threads may run it at once, each with its own
 * bases.
 *
 * The part between the two CFFI marks is read by the binding's generator: plain declarations, no preprocessor.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include <stddef.h>
#include <stdint.h>

/* CFFI BEGIN */
enum { EB_MAX_RANK = 8 };

/* Element types; the same order as DTYPES in engine/dtypes.py (a test compares them). */
typedef enum {
    EB_F32, EB_F64, EB_F16, EB_BF16, EB_I64, EB_I32, EB_I16, EB_I8, EB_U8, EB_BOOL
} eb_dtype;

/* What a function answers. */
typedef enum {
    EB_OK = 0,
    EB_NOT_APPLICABLE = 1,     /* plan: this kernel cannot run this node; try the next one */
    EB_NEEDS_DENSE = 2,        /* plan: it could, if its inputs were dense (row-major, no gaps) */
    EB_INDEX_OUT_OF_RANGE = 3, /* run: an index outside of its table */
    EB_DIVISION_BY_ZERO = 4    /* run: integer division by zero */
} eb_status;

/* What one scale of an encoding is for, and what its zero points are; as in engine/encodings.py (a test compares them). */
typedef enum { EB_PER_ELEMENT, EB_PER_TENSOR, EB_PER_CHANNEL, EB_PER_GROUP } eb_per;
typedef enum { EB_ZERO_NONE, EB_ZERO_MIDDLE, EB_ZERO_INTEGER, EB_ZERO_MINIMUM } eb_zero;

/* How the elements of a constant are stored: a row of encodings.h. Row 0 is `plain`: one element after the other. */
typedef struct {
    const char *name;
    int32_t stored;    /* eb_dtype of the data; -1 for plain */
    int32_t bits;      /* of one element of the data: 8 or more, or 4: two in a byte, the first one low */
    int32_t low, high; /* the least and the largest stored integer */
    int32_t per;       /* eb_per */
    int32_t group;     /* elements of a group, along the axis of the operand */
    int32_t scale;     /* eb_dtype of scales; -1: none */
    int32_t zero;      /* eb_zero */
} eb_encoding;

int32_t eb_encoding_count(void);
eb_encoding eb_encoding_describe(int32_t encoding);

/* One operand. Strides count elements and may be 0 (broadcast). dtype -1: an absent optional input. An encoded operand has the
 * dtype, shape and strides of its data. */
typedef struct {
    int32_t buffer; /* index into bases */
    int32_t dtype;
    int32_t rank;
    int32_t is_packed; /* weights: the buffer holds this operand in the layout that the kernel asks for (eb_layout_of) */
    int16_t encoding;  /* row of encodings.h */
    int16_t axis;      /* of channels or groups */
    int32_t parts;     /* encoded: position of the input with its scales; zero points, if any, are the next input */
    int64_t offset;    /* bytes from the buffer's base */
    int64_t shape[8];
    int64_t stride[8];
} eb_tensor;

/* One step. Filled by Python, then completed by eb_plan_node (the fields after the blank line). */
typedef struct {
    int32_t kernel; /* index into the registry */
    int32_t n_inputs, n_outputs, n_ints, n_reals;
    eb_tensor *operands; /* n_inputs inputs: those of the op, then scales and zero points of encoded ones; then outputs */
    int64_t *ints;       /* attributes, in the order of csrc/ops.h */
    double *reals;
    int32_t scratch_buffer; /* set by Python after planning: where scratch_bytes x threads lie, 64-byte aligned, with */
    int64_t scratch_offset; /* shared_bytes just before them */
    int32_t overlap; /* set by Python: how many of the nodes just before it may still run beside it; 0: none */
    int32_t wanted;  /* a switch names this kernel: its plan asks whether it can run the node, not whether it pays */

    int64_t tiles;         /* independent units of work; the result must not depend on which thread runs which */
    int64_t joins;         /* tiles [tiles, tiles + joins): independent too, but run after all the others are done */
    int64_t scratch_bytes; /* a thread */
    int64_t shared_bytes;  /* of all threads together: what tiles leave for joins */
    int64_t operations;    /* arithmetic that the kernel carries out, where that is not the op's; 0: as the op says */
    int64_t plan[8];       /* of the kernel's own: a struct that it declares (EB_NODE_PLAN); the node is copied afterwards */
} eb_node;

/* What one row of kernels.inc says of itself. Strings are static. */
typedef struct {
    const char *name;    /* <types>_<op>__<isa>_<variant> */
    const char *types;   /* its signature, a row of signatures.inc */
    const char *op;      /* as in the op table */
    const char *isa;     /* a row of isas.txt */
    const char *variant; /* a name for the switch: "packed", "reference", ... */
    int32_t share;       /* percent of the roof that it reaches at its worst; 0: it promises nothing */
    int32_t transforms;  /* it computes with transformed weights: NaN and infinities spread to neighbours */
} eb_kernel_info;

/* The registry, best first: the first row whose op, types, variant and ISA fit and whose plan answers EB_OK is used. */
int32_t eb_kernel_count(void);
eb_kernel_info eb_kernel_describe(int32_t kernel);
/* Whether the types of a kernel permit an encoding of an operand (0: plain) and a value of the attribute `compute`. */
int32_t eb_kernel_accepts(int32_t kernel, int32_t encoding, int32_t compute);

/* An instruction set: a row of isas.txt. The string is static. */
typedef struct {
    const char *name;
    uint64_t requires; /* a bit for each feature; a machine runs it if it has them all */
} eb_isa_info;

/* The instruction sets, those of other architectures too, least capable first. */
int32_t eb_isa_count(void);
eb_isa_info eb_isa_describe(int32_t isa);
/* What the instruction set of this name requires; all bits where there is none, which no machine has. */
uint64_t eb_isa_requires(const char *isa);
/* The features of this machine, and the name of one by its bit; NULL beyond the last. */
uint64_t eb_machine_features(void);
const char *eb_feature_name(int32_t feature);

/* Complete a node whose kernel, operands and attributes are set. Reads shapes, strides and is_packed, never data, buffers
 * or offsets, which are set afterwards. What eb_layout_of wants packed is marked before. EB_NOT_APPLICABLE also if the node does not fit the kernel's signature, or if the plan would need
 * more memory or tiles than any machine has, or memory out of proportion to the operands (checked.h). On every status but
 * EB_OK, tiles, joins, scratch_bytes, shared_bytes and operations are 0. */
eb_status eb_plan_node(eb_node *node);

/* How a kernel wants the elements of a weight to lie. Equal names and numbers, of operands of equal shapes and strides, are
 * the same bytes, whatever kernel asks for them. */
typedef struct {
    const char *packing; /* the name of the packing; NULL: the plain layout */
    int64_t numbers[8];  /* what else decides: attributes of the op */
    int64_t bytes;       /* of the packed weight */
    int64_t pieces;      /* that can be packed one by one */
    int32_t moves;       /* packing moves elements and pads with zeros; it does not compute */
} eb_layout;

/* The layout in which the node's kernel wants operand `input`, if that is a constant and dense. The plain one also where the packed
 * weight would be out of proportion to the plain one. It depends on the operand's shape and strides, on attributes and on
 * the kernel, never on the other operands' sizes. */
eb_layout eb_layout_of(const eb_node *node, int32_t input);
/* Pack pieces [begin, end) of `source` (the plain weight, described by operands[input], any alignment) into `destination`
 * (64-byte aligned, `bytes` of the layout). Every byte of the destination belongs to one piece. */
void eb_pack(const eb_node *node, int32_t input, const void *source, void *destination, int64_t begin, int64_t end);
/* The plain weight, dense, from all of its packed pieces, where the layout `moves`. */
void eb_unpack(const eb_node *node, int32_t input, const void *packed, void *destination);

/* The memory of a plan. Buffer 0 is the arena; behind it the inputs of a call, then states, outputs and constants. */
typedef struct {
    int32_t buffers, inputs, first_constant, parts;
    const int64_t *bytes;        /* of each buffer */
    const int64_t *part_offsets; /* of each part of the arena that belongs to one value, from the arena's start */
    const int64_t *part_bytes;
} eb_memory;

/* Decide where the operands of planned nodes lie, and check it. On entry `buffer` of an operand in the arena is -1 - p,
 * where p is its part of the arena, and its offset counts from that part; on return the buffer is 0 and the offset
 * counts from the arena's start. Every operand must lie inside of its part or buffer, a result in a part, a state or an
 * output, and the working memory of all threads inside of the arena and apart from the node's own operands.
 *
 * Answers -1, or the first node that breaks a rule; `wrong` then receives a static text that says which. */
int32_t eb_place_operands(eb_node *nodes, int32_t count, int32_t threads, const eb_memory *memory, const char **wrong);

/* Where the time of one run goes, in ticks of eb_tick_seconds(). */
typedef struct {
    int64_t nodes; /* of the whole plan */
    int64_t wall;  /* receives the run's ticks, from the first thing eb_run does to the last */
    int64_t *busy; /* [threads][nodes], zeroed by the caller: ticks that each thread spent in tiles of each node */
} eb_profile;

/* Run nodes[first..last). With threads > 1 the process-wide pool helps if it is free, and a node may run beside the
 * `overlap` nodes before it. `profile`: NULL, or what receives the times. `failed`: receives the index of the first
 * node that did not answer EB_OK. */
eb_status eb_run(const eb_node *nodes, int32_t first, int32_t last, void *const *bases, int32_t threads,
                 eb_profile *profile, int32_t *failed);

/* The clock of eb_profile: "rdtsc", "cntvct" or "clock_gettime", and its tick. The first call takes 4 ms on x86. */
const char *eb_clock(void);
double eb_tick_seconds(void);

/* Writes elements of `size` bytes (1, 2, 4 or 8), at most EB_MAX_RANK axes of them, row by row. Strides count elements. */
void eb_make_dense(void *to, const void *from, int32_t size, int32_t rank, const int64_t *shape, const int64_t *stride);

/* A function of OpenBLAS, handed over by Python when the package that carries it is found; NULL takes it back.
 * The pointer is a cblas_sgemm with 32-bit integers. Kernels of variant "openblas" are not applicable without it. */
void eb_set_sgemm(void *cblas_sgemm);

/* Roofs of the calling thread: operations/s of independent multiply-adds ("fp32", "bf16", "int8") by the best that `isa` allows, NULL
 * by the best of the machine (0: not on this machine), and bytes/s of reading `bytes` (4096 at least) again and again with the
 * widest loads. */
double eb_measure_arithmetic(const char *what, const char *isa, double at_least_seconds);
double eb_measure_read(const void *data, int64_t bytes, double at_least_seconds);
/* Bytes/s, read and written counted both, of copying `bytes` to an address aligned to 64 with stores past the caches. */
double eb_measure_copy(void *to, const void *from, int64_t bytes, double at_least_seconds);

/* A roof of several threads at once. */
typedef struct {
    double rate;            /* operations or bytes a second, all threads together; 0: not on this machine */
    double clock;           /* cycles a second of one processor, measured beside it */
    double per_instruction; /* operations or bytes of one vector instruction */
    const char *isa;        /* static; NULL where rate is 0 */
} eb_roof;

/* `what`: "fp32", "bf16", "int8" (operations: two a multiply-add), "read" or "copy" (bytes, of a copy those read and
 * those written; each thread has `bytes` of its own, 4096 at least, and copies one half of them to the other). All
 * threads work in the same windows, each on a processor of its own where there are enough; the rate is the best
 * window's. The caller's own processors stay as they are. */
eb_roof eb_measure_roof(const char *what, int64_t bytes, int32_t threads, double seconds);
/* Seconds from a write on processor `from` until a thread on processor `to` reads it: half of a round trip, in the best
 * window of about `seconds`. 0 where threads cannot be put on both. */
double eb_measure_handover(int32_t from, int32_t to, double seconds);
/* CFFI END */

/* --- for kernels only ------------------------------------------------------------------------------------------- */

/* A packing: functions that arrange the elements of a weight, for any kernel that asks for them. Knows no node. `weight` is
 * the plain weight, `numbers` are those of the layout. */
typedef struct {
    const char *name; /* packings of one name make the same bytes */
    int64_t (*bytes)(const eb_tensor *weight, const int64_t *numbers);  /* saturating */
    int64_t (*pieces)(const eb_tensor *weight, const int64_t *numbers);
    void (*pack)(const eb_tensor *weight, const int64_t *numbers, const void *source, void *destination, int64_t begin,
                 int64_t end);
    /* NULL: packing computes new numbers, and does not only move elements and pad with zeros. */
    void (*unpack)(const eb_tensor *weight, const int64_t *numbers, const void *packed, void *destination);
} eb_packing;

typedef struct {
    eb_status (*plan)(eb_node *node);
    eb_status (*run)(const eb_node *node, void *const *bases, int64_t tile_begin, int64_t tile_end, void *scratch);
    /* The packing that the kernel wants operand `input` in, and its numbers, which are 0 before; NULL: none. */
    const eb_packing *(*packing)(const eb_node *node, int32_t input, int64_t *numbers); /* NULL: it packs nothing */
    int32_t transforms; /* see eb_kernel_info */
} eb_kernel;

/* Has the nodes of a file's kernels hold a struct of `type`, whose members are int64_t: <type>_of(node) reads it, and
 * edit_<type>(node) is for the plan function, which finds zeros in it. */
#define EB_NODE_PLAN(type)                                                                                           \
    _Static_assert(sizeof(type) <= sizeof(((eb_node *)0)->plan), "a node has no room for a " #type);                 \
    _Static_assert(_Alignof(type) == _Alignof(int64_t), "members of a " #type " are int64_t");                       \
    static inline const type *type##_of(const eb_node *node) { return (const type *)node->plan; }                    \
    static inline type *edit_##type(eb_node *node) { return (type *)node->plan; }

/* Size of an axis of the elements that an operand stands for; that of its data, where it is not encoded. */
int64_t eb_decoded_size(const eb_tensor *t, int axis);

/* The shared_bytes of a node. */
static inline void *eb_shared(const eb_node *node, void *const *bases) {
    return (char *)bases[node->scratch_buffer] + node->scratch_offset - node->shared_bytes;
}

static inline void *eb_data(const eb_tensor *t, void *const *bases) { return (char *)bases[t->buffer] + t->offset; }

#endif
