/* The parts of the test program. */
#ifndef SUITE_H
#define SUITE_H

#include "case.h"

/* Makers of cases that both the tests and the benchmark use. */
void make_linear(test_case *c, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int64_t activation);
void make_gated_linear(test_case *c, int64_t M, int64_t N, int64_t K, layout x_layout, int transposed, int bias);
void make_matmul(test_case *c, int64_t M, int64_t N, int64_t K, int transpose_a, int transpose_b, int batch, layout how);
void make_norm(test_case *c, const char *op, int64_t rows, int64_t n, int affine, int sum, layout how);
void make_softmax(test_case *c, const char *op, int64_t rows, int64_t n, int axis, layout how);
void make_unary(test_case *c, const char *op, int64_t rows, int64_t n, layout how);
void make_binary(test_case *c, const char *op, int64_t rows, int64_t n, int a_kind, int b_kind);
void make_cast(test_case *c, eb_dtype from, eb_dtype to, int64_t rows, int64_t n, layout how);
void make_reduction(test_case *c, const char *op, int64_t axes, int keepdims, layout how, const int64_t *shape);
void make_arg(test_case *c, const char *op, int axis, int keepdims, layout how, const int64_t *shape);
void make_chain(test_case *c, int64_t rows, int64_t n);
void make_rope(test_case *c, int64_t B, int64_t S, int64_t H, int64_t D, int inside, layout angles);
void make_selective_scan(test_case *c, int64_t N, int64_t S, int64_t D, int64_t states, int softplus, int whole, int decaying,
                         layout how);
void make_copy(test_case *c, eb_dtype dtype, layout how, int rank, const int64_t *shape);

typedef enum { NO_MASK, BOOL_FULL, BOOL_KEYS, FLOAT_FULL, FLOAT_KEYS, FLOAT_PLAIN, MASK_KINDS } mask_kind;
typedef struct {
    int64_t B, H, G, S, T, D, E;
    mask_kind mask;
    int causal, zero, transpose_output;
    layout how;
} attention_shape;
void make_attention(test_case *c, const attention_shape *s);

typedef struct {
    int64_t N, C, O, groups;
    int axes;
    int64_t in[3], kernel[3], stride[3], low[3], high[3], dilation[3];
    int64_t activation;
    int bias, residual, channels_last;
    layout how; /* of x and of the residual */
} conv_shape;
void make_conv(test_case *c, const conv_shape *s);
void set_conv(test_case *c, const conv_shape *s);     /* stride, padding, dilation and groups as attributes */
void move_channels(int64_t *shape, int axes);         /* the shape [N, C, *S] becomes [N, *S, C] */
void make_conv_transpose(test_case *c, const conv_shape *s); /* a negative `high` appends places */

void make_resample(test_case *c, int axis, int taps, const int64_t *shape); /* of 4 axes, one of them doubled */
void make_pad(test_case *c, eb_dtype dtype, int64_t mode, int rank, const int64_t *shape, const int64_t *low, const int64_t *high);

/* Two spatial axes, channels last where nothing else is said. Of a pool, bias is whether padding counts in a mean, residual
 * its divisor. */
typedef struct {
    int64_t N, H, W, C, O, kernel_h, kernel_w, stride, dilation, low_h, low_w, high_h, high_w;
    int bias, residual;
    int64_t activation;
    layout how;
} image_shape;
void make_image_conv(test_case *c, const image_shape *s);
void make_image_pool(test_case *c, const char *op, const image_shape *s, int ceil_mode, int channels_last);
void make_grouped_image_conv(test_case *c, const image_shape *s, int64_t groups);
void make_expand_depthwise(test_case *c, const image_shape *s, int64_t expand_activation); /* s: no residual */

void test_linear(void);
void test_gated_linear(void);
void test_matmul(void);
void test_attention(void);
void test_images(void);
void test_expand(void);
void test_rows(void);
void test_pointwise(void);
void test_accuracy(void);
void test_reduce(void);
void test_heads(void);
void test_selective_scan(void);
void test_micro(void);
void test_move(void);
void test_spatial(void);
void test_limits(void);
void test_measure(void);
void test_isas(void);
void test_pool(int with_fork);
void test_threads(void);

void bench(const char *isa, const char *part);

#endif
