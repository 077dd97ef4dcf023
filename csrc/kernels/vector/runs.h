/* What compare.c, integer.c and cast.c have in common: loops of plain C over runs of one or two operands, which the
 * compiler makes vectors of for each instruction set. Input 0 is x or a, and the last one b where an op has two. */
#ifndef EB_RUNS_H
#define EB_RUNS_H

#include "../../ops.h"
#include "vec.h"

enum { TILE_ELEMENTS = 16384 };

static eb_loop loop_of(const eb_node *node) {
    const eb_tensor *tensors[EB_LOOP_OPERANDS] = {eb_output(node)};
    for (int i = 0; i < node->n_inputs; i++) tensors[i + 1] = eb_input(node, i);
    return eb_loop_broadcast(eb_output(node), node->n_inputs + 1, tensors);
}

/* Tiles are runs of TILE_ELEMENTS of the loop's row-major order. */
static eb_status plan_runs(eb_node *node) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1;
    if (loop.stride[0][inner] != 1 && loop.shape[inner] > 1) return EB_NOT_APPLICABLE;
    for (int o = 1; o < loop.operands; o++)
        if (loop.stride[o][inner] != 0 && loop.stride[o][inner] != 1) return EB_NEEDS_DENSE;
    node->tiles = eb_ceil_div(loop.count, TILE_ELEMENTS);
    return EB_OK;
}

/* y[0 .. count) of a and b, each contiguous or (step 0) one value. */
typedef void (*elementwise_function)(void *y, const void *a, const void *b, int64_t count, int64_t a_step, int64_t b_step);

static eb_status run_runs(const eb_node *node, void *const *bases, int64_t begin, int64_t end, elementwise_function function) {
    eb_loop loop = loop_of(node);
    int inner = loop.rank - 1, last = node->n_inputs - 1;
    int64_t flat = begin * TILE_ELEMENTS, flat_end = eb_min(loop.count, end * TILE_ELEMENTS);
    int64_t x_size = eb_element_size(eb_input(node, 0)->dtype), y_size = eb_element_size(eb_output(node)->dtype);
    const char *a = eb_data(eb_input(node, 0), bases), *b = eb_data(eb_input(node, last), bases);
    char *y = eb_data(eb_output(node), bases);
    eb_cursor at;
    eb_cursor_seek(&loop, &at, flat);
    while (flat < flat_end) {
        int64_t run = eb_cursor_run(&loop, &at, flat_end - flat);
        function(y + at.offset[0] * y_size, a + at.offset[1] * x_size, b + at.offset[last + 1] * x_size, run,
                 loop.stride[1][inner], loop.stride[last + 1][inner]);
        eb_cursor_advance(&loop, &at, run);
        flat += run;
    }
    return EB_OK;
}

#define ELEMENTWISE_RUN(op, function)                                                                              \
    static eb_status run_##op(const eb_node *n, void *const *bases, int64_t begin, int64_t end, void *scratch) {   \
        (void)scratch;                                                                                             \
        return run_runs(n, bases, begin, end, function);                                                           \
    }

/* Before a loop over elements of which each is read before it is written, if it is written at all: an output in place of
 * an input is no obstacle to vectors. */
#if defined(__clang__)
#define EB_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define EB_INDEPENDENT _Pragma("GCC ivdep")
#endif

/* any_<op>__<isa>_vector */
#define EB_ANY_SYMBOL(op) EB_PASTE(any_, op, __, EB_ISA, _, vector)

#endif
