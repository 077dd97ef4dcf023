/* Generated from the op table by `python -m engine.ops.generate`; do not edit.
 *
 * EB_INT_<OP>_<ATTRIBUTE> and EB_REAL_<OP>_<ATTRIBUTE> are positions in eb_node.ints and eb_node.reals;
 * EB_<OP>_<ATTRIBUTE>_<CHOICE> is the value of an attribute with named choices. A dtype is an eb_dtype, axes
 * are a bit mask, a list of ints is EB_MAX_RANK of them from its position on, a program is the last of ints:
 * four a step, the step's code and its operands.
 */
#ifndef ENGINE_OPS_H
#define ENGINE_OPS_H

enum { /* gelu */
    EB_INT_GELU_APPROXIMATE = 0,
    EB_GELU_APPROXIMATE_NONE = 0,
    EB_GELU_APPROXIMATE_TANH = 1,
};

enum { /* cast */
    EB_INT_CAST_DTYPE = 0,
};

enum { /* matmul */
    EB_INT_MATMUL_TRANSPOSE_A = 0,
    EB_INT_MATMUL_TRANSPOSE_B = 1,
    EB_REAL_MATMUL_ALPHA = 0,
};

enum { /* linear */
    EB_INT_LINEAR_TRANSPOSE_WEIGHT = 0,
    EB_INT_LINEAR_ACTIVATION = 1,
    EB_REAL_LINEAR_ALPHA = 0,
    EB_LINEAR_ACTIVATION_NONE = 0,
    EB_LINEAR_ACTIVATION_RELU = 1,
    EB_LINEAR_ACTIVATION_GELU = 2,
    EB_LINEAR_ACTIVATION_GELU_TANH = 3,
    EB_LINEAR_ACTIVATION_SILU = 4,
    EB_LINEAR_ACTIVATION_TANH = 5,
    EB_LINEAR_ACTIVATION_SIGMOID = 6,
};

enum { /* gated_linear */
    EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT = 0,
    EB_INT_GATED_LINEAR_ACTIVATION = 1,
    EB_GATED_LINEAR_ACTIVATION_NONE = 0,
    EB_GATED_LINEAR_ACTIVATION_RELU = 1,
    EB_GATED_LINEAR_ACTIVATION_GELU = 2,
    EB_GATED_LINEAR_ACTIVATION_GELU_TANH = 3,
    EB_GATED_LINEAR_ACTIVATION_SILU = 4,
    EB_GATED_LINEAR_ACTIVATION_TANH = 5,
    EB_GATED_LINEAR_ACTIVATION_SIGMOID = 6,
};

enum { /* conv */
    EB_INT_CONV_STRIDE = 0,
    EB_INT_CONV_LOW = 8,
    EB_INT_CONV_HIGH = 16,
    EB_INT_CONV_DILATION = 24,
    EB_INT_CONV_GROUPS = 32,
    EB_INT_CONV_ACTIVATION = 33,
    EB_CONV_ACTIVATION_NONE = 0,
    EB_CONV_ACTIVATION_RELU = 1,
    EB_CONV_ACTIVATION_GELU = 2,
    EB_CONV_ACTIVATION_GELU_TANH = 3,
    EB_CONV_ACTIVATION_SILU = 4,
    EB_CONV_ACTIVATION_TANH = 5,
    EB_CONV_ACTIVATION_SIGMOID = 6,
};

enum { /* conv_transpose */
    EB_INT_CONV_TRANSPOSE_STRIDE = 0,
    EB_INT_CONV_TRANSPOSE_LOW = 8,
    EB_INT_CONV_TRANSPOSE_HIGH = 16,
    EB_INT_CONV_TRANSPOSE_DILATION = 24,
    EB_INT_CONV_TRANSPOSE_GROUPS = 32,
};

enum { /* attention */
    EB_REAL_ATTENTION_SCALE = 0,
    EB_INT_ATTENTION_CAUSAL = 0,
    EB_INT_ATTENTION_MASKED_ROWS = 1,
    EB_INT_ATTENTION_TRANSPOSE_OUTPUT = 2,
    EB_ATTENTION_MASKED_ROWS_ZERO = 0,
    EB_ATTENTION_MASKED_ROWS_NAN = 1,
};

enum { /* layer_norm */
    EB_INT_LAYER_NORM_AXES = 0,
    EB_REAL_LAYER_NORM_EPSILON = 0,
};

enum { /* rms_norm */
    EB_INT_RMS_NORM_AXES = 0,
    EB_REAL_RMS_NORM_EPSILON = 0,
};

enum { /* softmax */
    EB_INT_SOFTMAX_AXIS = 0,
};

enum { /* log_softmax */
    EB_INT_LOG_SOFTMAX_AXIS = 0,
};

enum { /* max_pool */
    EB_INT_MAX_POOL_KERNEL = 0,
    EB_INT_MAX_POOL_STRIDE = 8,
    EB_INT_MAX_POOL_LOW = 16,
    EB_INT_MAX_POOL_HIGH = 24,
    EB_INT_MAX_POOL_DILATION = 32,
    EB_INT_MAX_POOL_CEIL_MODE = 40,
};

enum { /* avg_pool */
    EB_INT_AVG_POOL_KERNEL = 0,
    EB_INT_AVG_POOL_STRIDE = 8,
    EB_INT_AVG_POOL_LOW = 16,
    EB_INT_AVG_POOL_HIGH = 24,
    EB_INT_AVG_POOL_CEIL_MODE = 32,
    EB_INT_AVG_POOL_COUNT_PADDING = 33,
    EB_INT_AVG_POOL_DIVISOR = 34,
};

enum { /* sum */
    EB_INT_SUM_AXES = 0,
    EB_INT_SUM_KEEPDIMS = 1,
};

enum { /* mean */
    EB_INT_MEAN_AXES = 0,
    EB_INT_MEAN_KEEPDIMS = 1,
};

enum { /* prod */
    EB_INT_PROD_AXES = 0,
    EB_INT_PROD_KEEPDIMS = 1,
};

enum { /* amax */
    EB_INT_AMAX_AXES = 0,
    EB_INT_AMAX_KEEPDIMS = 1,
};

enum { /* amin */
    EB_INT_AMIN_AXES = 0,
    EB_INT_AMIN_KEEPDIMS = 1,
};

enum { /* any */
    EB_INT_ANY_AXES = 0,
    EB_INT_ANY_KEEPDIMS = 1,
};

enum { /* all */
    EB_INT_ALL_AXES = 0,
    EB_INT_ALL_KEEPDIMS = 1,
};

enum { /* argmax */
    EB_INT_ARGMAX_AXIS = 0,
    EB_INT_ARGMAX_KEEPDIMS = 1,
};

enum { /* argmin */
    EB_INT_ARGMIN_AXIS = 0,
    EB_INT_ARGMIN_KEEPDIMS = 1,
};

enum { /* var */
    EB_INT_VAR_AXES = 0,
    EB_REAL_VAR_CORRECTION = 0,
    EB_INT_VAR_KEEPDIMS = 1,
};

enum { /* cumsum */
    EB_INT_CUMSUM_AXIS = 0,
};

enum { /* pad */
    EB_INT_PAD_LOW = 0,
    EB_INT_PAD_HIGH = 8,
    EB_INT_PAD_MODE = 16,
    EB_REAL_PAD_VALUE = 0,
    EB_PAD_MODE_CONSTANT = 0,
    EB_PAD_MODE_REFLECT = 1,
    EB_PAD_MODE_REPLICATE = 2,
    EB_PAD_MODE_CIRCULAR = 3,
};

enum { /* resample */
    EB_INT_RESAMPLE_AXIS = 0,
};

enum { /* slice */
    EB_INT_SLICE_AXIS = 0,
    EB_INT_SLICE_START = 1,
    EB_INT_SLICE_STOP = 2,
    EB_INT_SLICE_STEP = 3,
};

enum { /* concat */
    EB_INT_CONCAT_AXIS = 0,
};

enum { /* full */
    EB_REAL_FULL_VALUE = 0,
    EB_INT_FULL_DTYPE = 0,
};

enum { /* arange */
    EB_REAL_ARANGE_START = 0,
    EB_REAL_ARANGE_STEP = 1,
    EB_INT_ARANGE_LENGTH = 0,
    EB_INT_ARANGE_DTYPE = 1,
};

enum { /* tril */
    EB_INT_TRIL_DIAGONAL = 0,
};

enum { /* triu */
    EB_INT_TRIU_DIAGONAL = 0,
};

enum { /* gather */
    EB_INT_GATHER_AXIS = 0,
};

enum { /* index_select */
    EB_INT_INDEX_SELECT_AXIS = 0,
};

enum { /* index */
    EB_INT_INDEX_AXES = 0,
};

enum { /* pointwise */
    EB_INT_POINTWISE_PROGRAM = 0,
    EB_POINTWISE_PROGRAM_NEG = 0,
    EB_POINTWISE_PROGRAM_ABS = 1,
    EB_POINTWISE_PROGRAM_SQRT = 2,
    EB_POINTWISE_PROGRAM_RSQRT = 3,
    EB_POINTWISE_PROGRAM_RECIPROCAL = 4,
    EB_POINTWISE_PROGRAM_EXP = 5,
    EB_POINTWISE_PROGRAM_TANH = 6,
    EB_POINTWISE_PROGRAM_SIGMOID = 7,
    EB_POINTWISE_PROGRAM_ERF = 8,
    EB_POINTWISE_PROGRAM_RELU = 9,
    EB_POINTWISE_PROGRAM_SILU = 10,
    EB_POINTWISE_PROGRAM_GELU = 11,
    EB_POINTWISE_PROGRAM_GELU_TANH = 12,
    EB_POINTWISE_PROGRAM_ADD = 13,
    EB_POINTWISE_PROGRAM_SUB = 14,
    EB_POINTWISE_PROGRAM_MUL = 15,
    EB_POINTWISE_PROGRAM_DIV = 16,
    EB_POINTWISE_PROGRAM_MAXIMUM = 17,
    EB_POINTWISE_PROGRAM_MINIMUM = 18,
    EB_POINTWISE_PROGRAM_WHERE = 19,
};

enum { /* embedding_norm */
    EB_INT_EMBEDDING_NORM_NORM = 0,
    EB_REAL_EMBEDDING_NORM_EPSILON = 0,
    EB_EMBEDDING_NORM_NORM_LAYER_NORM = 0,
    EB_EMBEDDING_NORM_NORM_RMS_NORM = 1,
};

#endif
