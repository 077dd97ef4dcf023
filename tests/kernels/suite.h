/* The parts of the test program. */
#ifndef SUITE_H
#define SUITE_H

#include "case.h"

/* --- the lists of cases (cases.c) --- */

typedef struct case_visitor case_visitor;
struct case_visitor {
    const char *op; /* of the table's row whose provider is at work: the op of the cases that it describes */
    void (*visit)(case_visitor *v, test_case *c);
    const char *part;
    int share; /* the driver checks one case in so many */
};

/* Describes all cases of v->op, and hands each to visit_case. */
typedef void case_provider(case_visitor *v);
void visit_case(case_visitor *v, test_case *c); /* and frees it */
void walk_cases(case_visitor *v);

void check_cases(const char *part, int share);
void list_cases(const char *part);
void check_coverage(void);
void bench(const char *isa, const char *part);

case_provider cases_linear, cases_gated_linear, cases_matmul;                                /* linear.c */
case_provider cases_conv, cases_conv_transpose;                                              /* spatial.c */
case_provider cases_pool, cases_resample, cases_grid_sample, cases_pad;                      /* windows.c */
case_provider cases_expand_depthwise, cases_attention, cases_selective_scan;                 /* files of their names */
case_provider cases_norm, cases_group_norm, cases_embedding_norm, cases_softmax;             /* rows.c */
case_provider cases_quantize_rows;                                                           /* rows.c */
case_provider cases_rope;                                                                    /* heads.c */
case_provider cases_unary, cases_binary, cases_where, cases_pointwise, cases_cast;           /* pointwise.c */
case_provider cases_comparison, cases_integer, cases_of_integers;                            /* pointwise.c */
case_provider cases_reduction, cases_along_axis, cases_argsort;                              /* reduce.c */
case_provider cases_copy, cases_concat, cases_flip, cases_triangle;                          /* move.c */
case_provider cases_embedding, cases_index_select;                                           /* move.c */
case_provider cases_gather, cases_index, cases_index_put, cases_scatter;                     /* move.c */
case_provider cases_full, cases_arange;                                                      /* move.c */

/* Sizes of tensors that ops of little arithmetic are timed at: in the second-level cache, and beyond the last level (64 MiB
 * and more), where the GB/s column counts. */
enum { STREAMS = 2 };
static const int64_t streams[STREAMS][2] = {{128, 768}, {16384, 1024}};

int is_one_of(const char *op, const char *const *ops, int count);
#define IS_ONE_OF(op, ...)                                                                                           \
    is_one_of(op, (const char *const[]){__VA_ARGS__}, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)))

/* --- cases that tests of their own describe, too --- */

void make_norm(test_case *c, const char *op, int64_t rows, int64_t n, int affine, int sum, layout how);
void make_softmax(test_case *c, const char *op, int64_t rows, int64_t n, int axis, layout how);
void make_unary(test_case *c, const char *op, int64_t rows, int64_t n, layout how);
void make_binary(test_case *c, const char *op, int64_t rows, int64_t n, int a_kind, int b_kind);
void make_chain(test_case *c, int64_t rows, int64_t n);
void make_copy(test_case *c, eb_dtype dtype, layout how, int rank, const int64_t *shape);

typedef enum { NO_MASK, BOOL_FULL, BOOL_KEYS, FLOAT_FULL, FLOAT_KEYS, FLOAT_PLAIN, MASK_KINDS } mask_kind;
typedef struct {
    int64_t B, H, G, S, T, D, E;
    mask_kind mask;
    int causal, zero, transpose_output;
    layout how;
    int bfloat; /* keys and values are bfloat16 */
} attention_shape;
void make_attention(test_case *c, const attention_shape *s);

typedef struct {
    int64_t N, C, O, groups;
    int axes;
    int64_t in[3], kernel[3], stride[3], low[3], high[3], dilation[3];
    int64_t activation;
    int bias, residual, channels_last;
    layout how;  /* of x and of the residual */
    int bfloat;  /* the weight is stored in bfloat16, and products are computed in it */
} conv_shape;
void make_conv(test_case *c, const conv_shape *s);
void multiply_in_bfloat(test_case *c);                /* of a described conv: the weight and the products in bfloat16 */
void set_conv(test_case *c, const conv_shape *s);     /* stride, padding, dilation and groups as attributes */
void move_channels(int64_t *shape, int axes);         /* the shape [N, C, *S] becomes [N, *S, C] */
void make_conv_transpose(test_case *c, const conv_shape *s); /* a negative `high` appends places */

/* Two spatial axes, channels last where nothing else is said. Of a pool, bias is whether padding counts in a mean, residual
 * its divisor. */
typedef struct {
    int64_t N, H, W, C, O, kernel_h, kernel_w, stride, dilation, low_h, low_w, high_h, high_w;
    int bias, residual;
    int64_t activation;
    layout how;
    int bfloat; /* as in a conv_shape; of conv alone */
} image_shape;
void add_heads(case_visitor *v);                                   /* of norms; heads.c */
void add_image_convolutions(case_visitor *v);                         /* of conv; images.c */
void add_extreme_convolutions(case_visitor *v, int is_transposed); /* of conv or conv_transpose; limits.c */
void make_expand_depthwise(test_case *c, const image_shape *s, int64_t expand_activation); /* s: no residual */

/* --- tests that are more than a comparison with the reference kernel --- */

void test_packing(void);
void test_bits_of_rows(void);
void test_accuracy(void);
void test_limits(void);
void test_measure(void);
void test_isas(void);
void test_pool(int with_fork);
void test_threads(void);

#endif
