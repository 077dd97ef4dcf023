/* Generated from the op table by `python -m tools.generate`; do not edit.
 *
 * EB_IN_<OP>_<INPUT> is the position of an input in eb_node.operands; of a variadic one, of its first value.
 * EB_INT_<OP>_<ATTRIBUTE> and EB_REAL_<OP>_<ATTRIBUTE> are positions in eb_node.ints and eb_node.reals;
 * EB_<OP>_<ATTRIBUTE>_<CHOICE> is the value of an attribute with named choices; where several ops have it,
 * EB_<ATTRIBUTE>_<CHOICE>. A dtype is an eb_dtype, axes are a bit mask, a list of ints is EB_MAX_RANK of
 * them from its position on, a program is the last of ints: four a step, the step's code and its operands. A
 * group of ops has the positions that are the same in all of them. EB_COMPUTE_OF_<op> is the position of
 * `compute` in eb_node.ints, -1 for an op without it.
 */
#ifndef ENGINE_OPS_H
#define ENGINE_OPS_H

enum { /* neg */
    EB_IN_NEG_X = 0,
};

enum { /* abs */
    EB_IN_ABS_X = 0,
};

enum { /* sign */
    EB_IN_SIGN_X = 0,
};

enum { /* exp */
    EB_IN_EXP_X = 0,
};

enum { /* expm1 */
    EB_IN_EXPM1_X = 0,
};

enum { /* log */
    EB_IN_LOG_X = 0,
};

enum { /* log1p */
    EB_IN_LOG1P_X = 0,
};

enum { /* sqrt */
    EB_IN_SQRT_X = 0,
};

enum { /* rsqrt */
    EB_IN_RSQRT_X = 0,
};

enum { /* reciprocal */
    EB_IN_RECIPROCAL_X = 0,
};

enum { /* exp2 */
    EB_IN_EXP2_X = 0,
};

enum { /* log2 */
    EB_IN_LOG2_X = 0,
};

enum { /* log10 */
    EB_IN_LOG10_X = 0,
};

enum { /* sin */
    EB_IN_SIN_X = 0,
};

enum { /* cos */
    EB_IN_COS_X = 0,
};

enum { /* tan */
    EB_IN_TAN_X = 0,
};

enum { /* asin */
    EB_IN_ASIN_X = 0,
};

enum { /* acos */
    EB_IN_ACOS_X = 0,
};

enum { /* atan */
    EB_IN_ATAN_X = 0,
};

enum { /* sinh */
    EB_IN_SINH_X = 0,
};

enum { /* cosh */
    EB_IN_COSH_X = 0,
};

enum { /* tanh */
    EB_IN_TANH_X = 0,
};

enum { /* asinh */
    EB_IN_ASINH_X = 0,
};

enum { /* acosh */
    EB_IN_ACOSH_X = 0,
};

enum { /* atanh */
    EB_IN_ATANH_X = 0,
};

enum { /* sigmoid */
    EB_IN_SIGMOID_X = 0,
};

enum { /* erf */
    EB_IN_ERF_X = 0,
};

enum { /* erfc */
    EB_IN_ERFC_X = 0,
};

enum { /* relu */
    EB_IN_RELU_X = 0,
};

enum { /* silu */
    EB_IN_SILU_X = 0,
};

enum { /* floor */
    EB_IN_FLOOR_X = 0,
};

enum { /* ceil */
    EB_IN_CEIL_X = 0,
};

enum { /* round */
    EB_IN_ROUND_X = 0,
};

enum { /* trunc */
    EB_IN_TRUNC_X = 0,
};

enum { /* gelu */
    EB_IN_GELU_X = 0,
    EB_INT_GELU_APPROXIMATE = 0,
    EB_GELU_APPROXIMATE_NONE = 0,
    EB_GELU_APPROXIMATE_TANH = 1,
};

enum { /* logical_not */
    EB_IN_LOGICAL_NOT_X = 0,
};

enum { /* bitwise_not */
    EB_IN_BITWISE_NOT_X = 0,
};

enum { /* isnan */
    EB_IN_ISNAN_X = 0,
};

enum { /* isinf */
    EB_IN_ISINF_X = 0,
};

enum { /* cast */
    EB_IN_CAST_X = 0,
    EB_INT_CAST_DTYPE = 0,
};

enum { /* add */
    EB_IN_ADD_A = 0,
    EB_IN_ADD_B = 1,
};

enum { /* sub */
    EB_IN_SUB_A = 0,
    EB_IN_SUB_B = 1,
};

enum { /* mul */
    EB_IN_MUL_A = 0,
    EB_IN_MUL_B = 1,
};

enum { /* div */
    EB_IN_DIV_A = 0,
    EB_IN_DIV_B = 1,
};

enum { /* floor_div */
    EB_IN_FLOOR_DIV_A = 0,
    EB_IN_FLOOR_DIV_B = 1,
};

enum { /* remainder */
    EB_IN_REMAINDER_A = 0,
    EB_IN_REMAINDER_B = 1,
};

enum { /* fmod */
    EB_IN_FMOD_A = 0,
    EB_IN_FMOD_B = 1,
};

enum { /* atan2 */
    EB_IN_ATAN2_A = 0,
    EB_IN_ATAN2_B = 1,
};

enum { /* copysign */
    EB_IN_COPYSIGN_A = 0,
    EB_IN_COPYSIGN_B = 1,
};

enum { /* pow */
    EB_IN_POW_A = 0,
    EB_IN_POW_B = 1,
};

enum { /* maximum */
    EB_IN_MAXIMUM_A = 0,
    EB_IN_MAXIMUM_B = 1,
};

enum { /* minimum */
    EB_IN_MINIMUM_A = 0,
    EB_IN_MINIMUM_B = 1,
};

enum { /* eq */
    EB_IN_EQ_A = 0,
    EB_IN_EQ_B = 1,
};

enum { /* ne */
    EB_IN_NE_A = 0,
    EB_IN_NE_B = 1,
};

enum { /* lt */
    EB_IN_LT_A = 0,
    EB_IN_LT_B = 1,
};

enum { /* le */
    EB_IN_LE_A = 0,
    EB_IN_LE_B = 1,
};

enum { /* gt */
    EB_IN_GT_A = 0,
    EB_IN_GT_B = 1,
};

enum { /* ge */
    EB_IN_GE_A = 0,
    EB_IN_GE_B = 1,
};

enum { /* logical_and */
    EB_IN_LOGICAL_AND_A = 0,
    EB_IN_LOGICAL_AND_B = 1,
};

enum { /* logical_or */
    EB_IN_LOGICAL_OR_A = 0,
    EB_IN_LOGICAL_OR_B = 1,
};

enum { /* logical_xor */
    EB_IN_LOGICAL_XOR_A = 0,
    EB_IN_LOGICAL_XOR_B = 1,
};

enum { /* bitwise_and */
    EB_IN_BITWISE_AND_A = 0,
    EB_IN_BITWISE_AND_B = 1,
};

enum { /* bitwise_or */
    EB_IN_BITWISE_OR_A = 0,
    EB_IN_BITWISE_OR_B = 1,
};

enum { /* bitwise_xor */
    EB_IN_BITWISE_XOR_A = 0,
    EB_IN_BITWISE_XOR_B = 1,
};

enum { /* shift_left */
    EB_IN_SHIFT_LEFT_A = 0,
    EB_IN_SHIFT_LEFT_B = 1,
};

enum { /* shift_right */
    EB_IN_SHIFT_RIGHT_A = 0,
    EB_IN_SHIFT_RIGHT_B = 1,
};

enum { /* where */
    EB_IN_WHERE_CONDITION = 0,
    EB_IN_WHERE_A = 1,
    EB_IN_WHERE_B = 2,
};

enum { /* matmul */
    EB_IN_MATMUL_A = 0,
    EB_IN_MATMUL_B = 1,
    EB_INT_MATMUL_TRANSPOSE_A = 0,
    EB_INT_MATMUL_TRANSPOSE_B = 1,
    EB_REAL_MATMUL_ALPHA = 0,
    EB_INT_MATMUL_COMPUTE = 2,
};

enum { /* linear */
    EB_IN_LINEAR_X = 0,
    EB_IN_LINEAR_WEIGHT = 1,
    EB_IN_LINEAR_BIAS = 2,
    EB_IN_LINEAR_RESIDUAL = 3,
    EB_IN_LINEAR_SCALE = 4,
    EB_INT_LINEAR_TRANSPOSE_WEIGHT = 0,
    EB_INT_LINEAR_ACTIVATION = 1,
    EB_REAL_LINEAR_ALPHA = 0,
    EB_INT_LINEAR_COMPUTE = 2,
};

enum { /* gated_linear */
    EB_IN_GATED_LINEAR_X = 0,
    EB_IN_GATED_LINEAR_WEIGHT = 1,
    EB_IN_GATED_LINEAR_BIAS = 2,
    EB_IN_GATED_LINEAR_SCALE = 3,
    EB_INT_GATED_LINEAR_TRANSPOSE_WEIGHT = 0,
    EB_INT_GATED_LINEAR_ACTIVATION = 1,
    EB_INT_GATED_LINEAR_COMPUTE = 2,
};

enum { /* conv */
    EB_IN_CONV_X = 0,
    EB_IN_CONV_WEIGHT = 1,
    EB_IN_CONV_BIAS = 2,
    EB_IN_CONV_RESIDUAL = 3,
    EB_INT_CONV_STRIDE = 0,
    EB_INT_CONV_LOW = 8,
    EB_INT_CONV_HIGH = 16,
    EB_INT_CONV_DILATION = 24,
    EB_INT_CONV_GROUPS = 32,
    EB_INT_CONV_ACTIVATION = 33,
    EB_INT_CONV_CHANNELS_LAST = 34,
    EB_INT_CONV_COMPUTE = 35,
};

enum { /* conv_transpose */
    EB_IN_CONV_TRANSPOSE_X = 0,
    EB_IN_CONV_TRANSPOSE_WEIGHT = 1,
    EB_IN_CONV_TRANSPOSE_BIAS = 2,
    EB_IN_CONV_TRANSPOSE_RESIDUAL = 3,
    EB_INT_CONV_TRANSPOSE_STRIDE = 0,
    EB_INT_CONV_TRANSPOSE_LOW = 8,
    EB_INT_CONV_TRANSPOSE_HIGH = 16,
    EB_INT_CONV_TRANSPOSE_DILATION = 24,
    EB_INT_CONV_TRANSPOSE_GROUPS = 32,
    EB_INT_CONV_TRANSPOSE_ACTIVATION = 33,
    EB_INT_CONV_TRANSPOSE_CHANNELS_LAST = 34,
};

enum { /* attention */
    EB_IN_ATTENTION_QUERY = 0,
    EB_IN_ATTENTION_KEY = 1,
    EB_IN_ATTENTION_VALUE = 2,
    EB_IN_ATTENTION_MASK = 3,
    EB_REAL_ATTENTION_SCALE = 0,
    EB_INT_ATTENTION_CAUSAL = 0,
    EB_INT_ATTENTION_MASKED_ROWS = 1,
    EB_INT_ATTENTION_TRANSPOSE_OUTPUT = 2,
    EB_ATTENTION_MASKED_ROWS_ZERO = 0,
    EB_ATTENTION_MASKED_ROWS_NAN = 1,
};

enum { /* rope */
    EB_IN_ROPE_X = 0,
    EB_IN_ROPE_COS = 1,
    EB_IN_ROPE_SIN = 2,
};

enum { /* layer_norm */
    EB_IN_LAYER_NORM_X = 0,
    EB_IN_LAYER_NORM_WEIGHT = 1,
    EB_IN_LAYER_NORM_BIAS = 2,
    EB_IN_LAYER_NORM_ADDEND = 3,
    EB_INT_LAYER_NORM_AXES = 0,
    EB_REAL_LAYER_NORM_EPSILON = 0,
};

enum { /* rms_norm */
    EB_IN_RMS_NORM_X = 0,
    EB_IN_RMS_NORM_WEIGHT = 1,
    EB_IN_RMS_NORM_ADDEND = 2,
    EB_INT_RMS_NORM_AXES = 0,
    EB_REAL_RMS_NORM_EPSILON = 0,
};

enum { /* group_norm */
    EB_IN_GROUP_NORM_X = 0,
    EB_IN_GROUP_NORM_WEIGHT = 1,
    EB_IN_GROUP_NORM_BIAS = 2,
    EB_INT_GROUP_NORM_GROUPS = 0,
    EB_REAL_GROUP_NORM_EPSILON = 0,
    EB_INT_GROUP_NORM_CHANNELS_LAST = 1,
};

enum { /* softmax */
    EB_IN_SOFTMAX_X = 0,
    EB_INT_SOFTMAX_AXIS = 0,
};

enum { /* log_softmax */
    EB_IN_LOG_SOFTMAX_X = 0,
    EB_INT_LOG_SOFTMAX_AXIS = 0,
};

enum { /* max_pool */
    EB_IN_MAX_POOL_X = 0,
    EB_INT_MAX_POOL_KERNEL = 0,
    EB_INT_MAX_POOL_STRIDE = 8,
    EB_INT_MAX_POOL_LOW = 16,
    EB_INT_MAX_POOL_HIGH = 24,
    EB_INT_MAX_POOL_CHANNELS_LAST = 32,
    EB_INT_MAX_POOL_DILATION = 33,
    EB_INT_MAX_POOL_CEIL_MODE = 41,
};

enum { /* avg_pool */
    EB_IN_AVG_POOL_X = 0,
    EB_INT_AVG_POOL_KERNEL = 0,
    EB_INT_AVG_POOL_STRIDE = 8,
    EB_INT_AVG_POOL_LOW = 16,
    EB_INT_AVG_POOL_HIGH = 24,
    EB_INT_AVG_POOL_CHANNELS_LAST = 32,
    EB_INT_AVG_POOL_CEIL_MODE = 33,
    EB_INT_AVG_POOL_COUNT_PADDING = 34,
    EB_INT_AVG_POOL_DIVISOR = 35,
};

enum { /* sum */
    EB_IN_SUM_X = 0,
    EB_INT_SUM_AXES = 0,
    EB_INT_SUM_KEEPDIMS = 1,
};

enum { /* mean */
    EB_IN_MEAN_X = 0,
    EB_INT_MEAN_AXES = 0,
    EB_INT_MEAN_KEEPDIMS = 1,
};

enum { /* prod */
    EB_IN_PROD_X = 0,
    EB_INT_PROD_AXES = 0,
    EB_INT_PROD_KEEPDIMS = 1,
};

enum { /* amax */
    EB_IN_AMAX_X = 0,
    EB_INT_AMAX_AXES = 0,
    EB_INT_AMAX_KEEPDIMS = 1,
};

enum { /* amin */
    EB_IN_AMIN_X = 0,
    EB_INT_AMIN_AXES = 0,
    EB_INT_AMIN_KEEPDIMS = 1,
};

enum { /* any */
    EB_IN_ANY_X = 0,
    EB_INT_ANY_AXES = 0,
    EB_INT_ANY_KEEPDIMS = 1,
};

enum { /* all */
    EB_IN_ALL_X = 0,
    EB_INT_ALL_AXES = 0,
    EB_INT_ALL_KEEPDIMS = 1,
};

enum { /* argmax */
    EB_IN_ARGMAX_X = 0,
    EB_INT_ARGMAX_AXIS = 0,
    EB_INT_ARGMAX_KEEPDIMS = 1,
};

enum { /* argmin */
    EB_IN_ARGMIN_X = 0,
    EB_INT_ARGMIN_AXIS = 0,
    EB_INT_ARGMIN_KEEPDIMS = 1,
};

enum { /* var */
    EB_IN_VAR_X = 0,
    EB_INT_VAR_AXES = 0,
    EB_REAL_VAR_CORRECTION = 0,
    EB_INT_VAR_KEEPDIMS = 1,
};

enum { /* cumsum */
    EB_IN_CUMSUM_X = 0,
    EB_INT_CUMSUM_AXIS = 0,
};

enum { /* cumprod */
    EB_IN_CUMPROD_X = 0,
    EB_INT_CUMPROD_AXIS = 0,
};

enum { /* argsort */
    EB_IN_ARGSORT_X = 0,
    EB_INT_ARGSORT_AXIS = 0,
    EB_INT_ARGSORT_COUNT = 1,
    EB_INT_ARGSORT_DESCENDING = 2,
};

enum { /* pad */
    EB_IN_PAD_X = 0,
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
    EB_IN_RESAMPLE_X = 0,
    EB_IN_RESAMPLE_INDEX = 1,
    EB_IN_RESAMPLE_WEIGHT = 2,
    EB_INT_RESAMPLE_AXIS = 0,
};

enum { /* taps */
    EB_INT_TAPS_MODE = 0,
    EB_INT_TAPS_SIZE = 1,
    EB_INT_TAPS_LENGTH = 2,
    EB_INT_TAPS_COLUMNS = 3,
    EB_REAL_TAPS_STEP = 0,
    EB_INT_TAPS_ALIGN_CORNERS = 4,
    EB_INT_TAPS_DTYPE = 5,
    EB_INT_TAPS_WEIGHTS = 6,
    EB_TAPS_MODE_NEAREST = 0,
    EB_TAPS_MODE_NEAREST_EXACT = 1,
    EB_TAPS_MODE_LINEAR = 2,
    EB_TAPS_MODE_CUBIC = 3,
    EB_TAPS_MODE_SMOOTH_LINEAR = 4,
    EB_TAPS_MODE_SMOOTH_CUBIC = 5,
    EB_TAPS_MODE_WINDOW = 6,
};

enum { /* grid_sample */
    EB_IN_GRID_SAMPLE_X = 0,
    EB_IN_GRID_SAMPLE_GRID = 1,
    EB_INT_GRID_SAMPLE_MODE = 0,
    EB_INT_GRID_SAMPLE_PADDING = 1,
    EB_INT_GRID_SAMPLE_ALIGN_CORNERS = 2,
    EB_GRID_SAMPLE_MODE_BILINEAR = 0,
    EB_GRID_SAMPLE_MODE_NEAREST = 1,
    EB_GRID_SAMPLE_MODE_BICUBIC = 2,
    EB_GRID_SAMPLE_PADDING_ZEROS = 0,
    EB_GRID_SAMPLE_PADDING_BORDER = 1,
    EB_GRID_SAMPLE_PADDING_REFLECTION = 2,
};

enum { /* reshape */
    EB_IN_RESHAPE_X = 0,
};

enum { /* permute */
    EB_IN_PERMUTE_X = 0,
};

enum { /* expand */
    EB_IN_EXPAND_X = 0,
};

enum { /* slice */
    EB_IN_SLICE_X = 0,
    EB_INT_SLICE_AXIS = 0,
    EB_INT_SLICE_START = 1,
    EB_INT_SLICE_STOP = 2,
    EB_INT_SLICE_STEP = 3,
};

enum { /* flip */
    EB_IN_FLIP_X = 0,
    EB_INT_FLIP_AXES = 0,
};

enum { /* windows */
    EB_IN_WINDOWS_X = 0,
    EB_INT_WINDOWS_AXIS = 0,
    EB_INT_WINDOWS_SIZE = 1,
    EB_INT_WINDOWS_STEP = 2,
};

enum { /* concat */
    EB_IN_CONCAT_XS = 0,
    EB_INT_CONCAT_AXIS = 0,
};

enum { /* copy */
    EB_IN_COPY_X = 0,
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
    EB_IN_TRIL_X = 0,
    EB_INT_TRIL_DIAGONAL = 0,
};

enum { /* triu */
    EB_IN_TRIU_X = 0,
    EB_INT_TRIU_DIAGONAL = 0,
};

enum { /* embedding */
    EB_IN_EMBEDDING_TABLE = 0,
    EB_IN_EMBEDDING_IDS = 1,
};

enum { /* gather */
    EB_IN_GATHER_X = 0,
    EB_IN_GATHER_INDEX = 1,
    EB_INT_GATHER_AXIS = 0,
};

enum { /* index_select */
    EB_IN_INDEX_SELECT_X = 0,
    EB_IN_INDEX_SELECT_INDEX = 1,
    EB_INT_INDEX_SELECT_AXIS = 0,
};

enum { /* index */
    EB_IN_INDEX_X = 0,
    EB_IN_INDEX_INDICES = 1,
    EB_INT_INDEX_AXES = 0,
};

enum { /* scatter */
    EB_IN_SCATTER_X = 0,
    EB_IN_SCATTER_INDEX = 1,
    EB_IN_SCATTER_SOURCE = 2,
    EB_INT_SCATTER_AXIS = 0,
    EB_INT_SCATTER_REDUCE = 1,
    EB_SCATTER_REDUCE_NONE = 0,
    EB_SCATTER_REDUCE_SUM = 1,
    EB_SCATTER_REDUCE_PROD = 2,
    EB_SCATTER_REDUCE_AMAX = 3,
    EB_SCATTER_REDUCE_AMIN = 4,
};

enum { /* index_put */
    EB_IN_INDEX_PUT_X = 0,
    EB_IN_INDEX_PUT_VALUES = 1,
    EB_IN_INDEX_PUT_INDICES = 2,
    EB_INT_INDEX_PUT_AXES = 0,
    EB_INT_INDEX_PUT_ACCUMULATE = 1,
};

enum { /* selective_scan */
    EB_IN_SELECTIVE_SCAN_X = 0,
    EB_IN_SELECTIVE_SCAN_DELTA = 1,
    EB_IN_SELECTIVE_SCAN_A = 2,
    EB_IN_SELECTIVE_SCAN_B = 3,
    EB_IN_SELECTIVE_SCAN_C = 4,
    EB_IN_SELECTIVE_SCAN_SKIP = 5,
    EB_IN_SELECTIVE_SCAN_GATE = 6,
    EB_IN_SELECTIVE_SCAN_BIAS = 7,
    EB_INT_SELECTIVE_SCAN_SOFTPLUS = 0,
};

enum { /* quantize_rows */
    EB_IN_QUANTIZE_ROWS_X = 0,
};

enum { /* quantize */
    EB_IN_QUANTIZE_X = 0,
    EB_REAL_QUANTIZE_SCALE = 0,
    EB_INT_QUANTIZE_ZERO = 0,
    EB_INT_QUANTIZE_DTYPE = 1,
};

enum { /* dequantize */
    EB_IN_DEQUANTIZE_X = 0,
    EB_REAL_DEQUANTIZE_SCALE = 0,
    EB_INT_DEQUANTIZE_ZERO = 0,
    EB_INT_DEQUANTIZE_DTYPE = 1,
};

enum { /* pointwise */
    EB_IN_POINTWISE_XS = 0,
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
    EB_POINTWISE_PROGRAM_SIGN = 11,
    EB_POINTWISE_PROGRAM_EXPM1 = 12,
    EB_POINTWISE_PROGRAM_LOG = 13,
    EB_POINTWISE_PROGRAM_LOG1P = 14,
    EB_POINTWISE_PROGRAM_SIN = 15,
    EB_POINTWISE_PROGRAM_COS = 16,
    EB_POINTWISE_PROGRAM_FLOOR = 17,
    EB_POINTWISE_PROGRAM_CEIL = 18,
    EB_POINTWISE_PROGRAM_ROUND = 19,
    EB_POINTWISE_PROGRAM_TRUNC = 20,
    EB_POINTWISE_PROGRAM_GELU = 21,
    EB_POINTWISE_PROGRAM_GELU_TANH = 22,
    EB_POINTWISE_PROGRAM_ISNAN = 23,
    EB_POINTWISE_PROGRAM_ISINF = 24,
    EB_POINTWISE_PROGRAM_ADD = 25,
    EB_POINTWISE_PROGRAM_SUB = 26,
    EB_POINTWISE_PROGRAM_MUL = 27,
    EB_POINTWISE_PROGRAM_DIV = 28,
    EB_POINTWISE_PROGRAM_MAXIMUM = 29,
    EB_POINTWISE_PROGRAM_MINIMUM = 30,
    EB_POINTWISE_PROGRAM_POW = 31,
    EB_POINTWISE_PROGRAM_EQ = 32,
    EB_POINTWISE_PROGRAM_NE = 33,
    EB_POINTWISE_PROGRAM_LT = 34,
    EB_POINTWISE_PROGRAM_LE = 35,
    EB_POINTWISE_PROGRAM_GT = 36,
    EB_POINTWISE_PROGRAM_GE = 37,
    EB_POINTWISE_PROGRAM_WHERE = 38,
    EB_POINTWISE_PROGRAM_TO_FLOAT32 = 39,
    EB_POINTWISE_PROGRAM_TO_FLOAT64 = 40,
    EB_POINTWISE_PROGRAM_TO_FLOAT16 = 41,
    EB_POINTWISE_PROGRAM_TO_BFLOAT16 = 42,
    EB_POINTWISE_PROGRAM_TO_INT64 = 43,
    EB_POINTWISE_PROGRAM_TO_INT32 = 44,
    EB_POINTWISE_PROGRAM_TO_INT16 = 45,
    EB_POINTWISE_PROGRAM_TO_INT8 = 46,
    EB_POINTWISE_PROGRAM_TO_UINT8 = 47,
    EB_POINTWISE_PROGRAM_TO_BOOL = 48,
};

enum { /* embedding_norm */
    EB_IN_EMBEDDING_NORM_FIRST = 0,
    EB_IN_EMBEDDING_NORM_FIRST_IDS = 1,
    EB_IN_EMBEDDING_NORM_SECOND = 2,
    EB_IN_EMBEDDING_NORM_SECOND_IDS = 3,
    EB_IN_EMBEDDING_NORM_THIRD = 4,
    EB_IN_EMBEDDING_NORM_THIRD_IDS = 5,
    EB_IN_EMBEDDING_NORM_WEIGHT = 6,
    EB_IN_EMBEDDING_NORM_BIAS = 7,
    EB_INT_EMBEDDING_NORM_NORM = 0,
    EB_REAL_EMBEDDING_NORM_EPSILON = 0,
    EB_EMBEDDING_NORM_NORM_LAYER_NORM = 0,
    EB_EMBEDDING_NORM_NORM_RMS_NORM = 1,
};

enum { /* expand_depthwise */
    EB_IN_EXPAND_DEPTHWISE_X = 0,
    EB_IN_EXPAND_DEPTHWISE_EXPAND = 1,
    EB_IN_EXPAND_DEPTHWISE_EXPAND_BIAS = 2,
    EB_IN_EXPAND_DEPTHWISE_WEIGHT = 3,
    EB_IN_EXPAND_DEPTHWISE_BIAS = 4,
    EB_INT_EXPAND_DEPTHWISE_STRIDE = 0,
    EB_INT_EXPAND_DEPTHWISE_LOW = 8,
    EB_INT_EXPAND_DEPTHWISE_HIGH = 16,
    EB_INT_EXPAND_DEPTHWISE_DILATION = 24,
    EB_INT_EXPAND_DEPTHWISE_EXPAND_ACTIVATION = 32,
    EB_INT_EXPAND_DEPTHWISE_ACTIVATION = 33,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_NONE = 0,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_RELU = 1,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_GELU = 2,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_GELU_TANH = 3,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_SILU = 4,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_TANH = 5,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_SIGMOID = 6,
    EB_EXPAND_DEPTHWISE_EXPAND_ACTIVATION_RELU6 = 7,
};

enum { /* linear, gated_linear */
    EB_IN_PRODUCT_X = 0,
    EB_IN_PRODUCT_WEIGHT = 1,
    EB_IN_PRODUCT_BIAS = 2,
    EB_INT_PRODUCT_TRANSPOSE_WEIGHT = 0,
    EB_INT_PRODUCT_ACTIVATION = 1,
    EB_INT_PRODUCT_COMPUTE = 2,
};

enum { /* conv, conv_transpose */
    EB_IN_CONVOLUTION_X = 0,
    EB_IN_CONVOLUTION_WEIGHT = 1,
    EB_IN_CONVOLUTION_BIAS = 2,
    EB_IN_CONVOLUTION_RESIDUAL = 3,
    EB_INT_CONVOLUTION_STRIDE = 0,
    EB_INT_CONVOLUTION_LOW = 8,
    EB_INT_CONVOLUTION_HIGH = 16,
    EB_INT_CONVOLUTION_DILATION = 24,
    EB_INT_CONVOLUTION_GROUPS = 32,
    EB_INT_CONVOLUTION_ACTIVATION = 33,
    EB_INT_CONVOLUTION_CHANNELS_LAST = 34,
};

enum { /* max_pool, avg_pool */
    EB_IN_POOL_X = 0,
    EB_INT_POOL_KERNEL = 0,
    EB_INT_POOL_STRIDE = 8,
    EB_INT_POOL_LOW = 16,
    EB_INT_POOL_HIGH = 24,
    EB_INT_POOL_CHANNELS_LAST = 32,
};

enum { /* layer_norm, rms_norm */
    EB_IN_NORM_X = 0,
    EB_IN_NORM_WEIGHT = 1,
    EB_INT_NORM_AXES = 0,
    EB_REAL_NORM_EPSILON = 0,
};

enum { /* softmax, log_softmax */
    EB_IN_SOFTMAXES_X = 0,
    EB_INT_SOFTMAXES_AXIS = 0,
};

enum { /* layer_norm, rms_norm, softmax, log_softmax */
    EB_IN_ROWS_X = 0,
};

enum { /* embedding, gather, index_select, index */
    EB_IN_READ_X = 0,
    EB_IN_READ_INDEX = 1,
};

enum { /* attribute compute */
    EB_COMPUTE_ELEMENT = 0,
    EB_COMPUTE_BFLOAT16 = 1,
    EB_COMPUTE_INT8 = 2,
};

enum { /* attribute activation */
    EB_ACTIVATION_NONE = 0,
    EB_ACTIVATION_RELU = 1,
    EB_ACTIVATION_GELU = 2,
    EB_ACTIVATION_GELU_TANH = 3,
    EB_ACTIVATION_SILU = 4,
    EB_ACTIVATION_TANH = 5,
    EB_ACTIVATION_SIGMOID = 6,
    EB_ACTIVATION_RELU6 = 7,
};

enum { /* where compute is */
    EB_COMPUTE_OF_neg = -1,
    EB_COMPUTE_OF_abs = -1,
    EB_COMPUTE_OF_sign = -1,
    EB_COMPUTE_OF_exp = -1,
    EB_COMPUTE_OF_expm1 = -1,
    EB_COMPUTE_OF_log = -1,
    EB_COMPUTE_OF_log1p = -1,
    EB_COMPUTE_OF_sqrt = -1,
    EB_COMPUTE_OF_rsqrt = -1,
    EB_COMPUTE_OF_reciprocal = -1,
    EB_COMPUTE_OF_exp2 = -1,
    EB_COMPUTE_OF_log2 = -1,
    EB_COMPUTE_OF_log10 = -1,
    EB_COMPUTE_OF_sin = -1,
    EB_COMPUTE_OF_cos = -1,
    EB_COMPUTE_OF_tan = -1,
    EB_COMPUTE_OF_asin = -1,
    EB_COMPUTE_OF_acos = -1,
    EB_COMPUTE_OF_atan = -1,
    EB_COMPUTE_OF_sinh = -1,
    EB_COMPUTE_OF_cosh = -1,
    EB_COMPUTE_OF_tanh = -1,
    EB_COMPUTE_OF_asinh = -1,
    EB_COMPUTE_OF_acosh = -1,
    EB_COMPUTE_OF_atanh = -1,
    EB_COMPUTE_OF_sigmoid = -1,
    EB_COMPUTE_OF_erf = -1,
    EB_COMPUTE_OF_erfc = -1,
    EB_COMPUTE_OF_relu = -1,
    EB_COMPUTE_OF_silu = -1,
    EB_COMPUTE_OF_floor = -1,
    EB_COMPUTE_OF_ceil = -1,
    EB_COMPUTE_OF_round = -1,
    EB_COMPUTE_OF_trunc = -1,
    EB_COMPUTE_OF_gelu = -1,
    EB_COMPUTE_OF_logical_not = -1,
    EB_COMPUTE_OF_bitwise_not = -1,
    EB_COMPUTE_OF_isnan = -1,
    EB_COMPUTE_OF_isinf = -1,
    EB_COMPUTE_OF_cast = -1,
    EB_COMPUTE_OF_add = -1,
    EB_COMPUTE_OF_sub = -1,
    EB_COMPUTE_OF_mul = -1,
    EB_COMPUTE_OF_div = -1,
    EB_COMPUTE_OF_floor_div = -1,
    EB_COMPUTE_OF_remainder = -1,
    EB_COMPUTE_OF_fmod = -1,
    EB_COMPUTE_OF_atan2 = -1,
    EB_COMPUTE_OF_copysign = -1,
    EB_COMPUTE_OF_pow = -1,
    EB_COMPUTE_OF_maximum = -1,
    EB_COMPUTE_OF_minimum = -1,
    EB_COMPUTE_OF_eq = -1,
    EB_COMPUTE_OF_ne = -1,
    EB_COMPUTE_OF_lt = -1,
    EB_COMPUTE_OF_le = -1,
    EB_COMPUTE_OF_gt = -1,
    EB_COMPUTE_OF_ge = -1,
    EB_COMPUTE_OF_logical_and = -1,
    EB_COMPUTE_OF_logical_or = -1,
    EB_COMPUTE_OF_logical_xor = -1,
    EB_COMPUTE_OF_bitwise_and = -1,
    EB_COMPUTE_OF_bitwise_or = -1,
    EB_COMPUTE_OF_bitwise_xor = -1,
    EB_COMPUTE_OF_shift_left = -1,
    EB_COMPUTE_OF_shift_right = -1,
    EB_COMPUTE_OF_where = -1,
    EB_COMPUTE_OF_matmul = 2,
    EB_COMPUTE_OF_linear = 2,
    EB_COMPUTE_OF_gated_linear = 2,
    EB_COMPUTE_OF_conv = 35,
    EB_COMPUTE_OF_conv_transpose = -1,
    EB_COMPUTE_OF_layer_norm = -1,
    EB_COMPUTE_OF_rms_norm = -1,
    EB_COMPUTE_OF_group_norm = -1,
    EB_COMPUTE_OF_softmax = -1,
    EB_COMPUTE_OF_log_softmax = -1,
    EB_COMPUTE_OF_attention = -1,
    EB_COMPUTE_OF_rope = -1,
    EB_COMPUTE_OF_full = -1,
    EB_COMPUTE_OF_arange = -1,
    EB_COMPUTE_OF_tril = -1,
    EB_COMPUTE_OF_triu = -1,
    EB_COMPUTE_OF_pointwise = -1,
    EB_COMPUTE_OF_embedding_norm = -1,
    EB_COMPUTE_OF_expand_depthwise = -1,
    EB_COMPUTE_OF_embedding = -1,
    EB_COMPUTE_OF_gather = -1,
    EB_COMPUTE_OF_index_select = -1,
    EB_COMPUTE_OF_index = -1,
    EB_COMPUTE_OF_argsort = -1,
    EB_COMPUTE_OF_max_pool = -1,
    EB_COMPUTE_OF_avg_pool = -1,
    EB_COMPUTE_OF_quantize_rows = -1,
    EB_COMPUTE_OF_quantize = -1,
    EB_COMPUTE_OF_dequantize = -1,
    EB_COMPUTE_OF_sum = -1,
    EB_COMPUTE_OF_mean = -1,
    EB_COMPUTE_OF_prod = -1,
    EB_COMPUTE_OF_amax = -1,
    EB_COMPUTE_OF_amin = -1,
    EB_COMPUTE_OF_any = -1,
    EB_COMPUTE_OF_all = -1,
    EB_COMPUTE_OF_argmax = -1,
    EB_COMPUTE_OF_argmin = -1,
    EB_COMPUTE_OF_var = -1,
    EB_COMPUTE_OF_cumsum = -1,
    EB_COMPUTE_OF_cumprod = -1,
    EB_COMPUTE_OF_pad = -1,
    EB_COMPUTE_OF_resample = -1,
    EB_COMPUTE_OF_taps = -1,
    EB_COMPUTE_OF_grid_sample = -1,
    EB_COMPUTE_OF_selective_scan = -1,
    EB_COMPUTE_OF_reshape = -1,
    EB_COMPUTE_OF_permute = -1,
    EB_COMPUTE_OF_expand = -1,
    EB_COMPUTE_OF_slice = -1,
    EB_COMPUTE_OF_flip = -1,
    EB_COMPUTE_OF_windows = -1,
    EB_COMPUTE_OF_concat = -1,
    EB_COMPUTE_OF_copy = -1,
    EB_COMPUTE_OF_scatter = -1,
    EB_COMPUTE_OF_index_put = -1,
};

#endif
