/* Generated from the tables of element types and encodings by `python -m tools.generate`; do not edit.
 *
 * EB_ELEMENT_SIZES: bytes of an element, in the order of eb_dtype. EB_ENCODINGS: what an eb_encoding holds.
 */
#ifndef ENGINE_ENCODINGS_H
#define ENGINE_ENCODINGS_H

#define EB_ELEMENT_SIZES {4, 8, 2, 2, 8, 4, 2, 1, 1, 1}

#define EB_ENCODINGS(ROW) \
    ROW(plain, -1, 0, 0, 0, EB_PER_ELEMENT, 0, -1, EB_ZERO_NONE) \
    ROW(bfloat16, EB_BF16, 16, 0, 0, EB_PER_ELEMENT, 0, -1, EB_ZERO_NONE) \
    ROW(float16, EB_F16, 16, 0, 0, EB_PER_ELEMENT, 0, -1, EB_ZERO_NONE) \
    ROW(int8_tensor, EB_I8, 8, -127, 127, EB_PER_TENSOR, 0, EB_F32, EB_ZERO_NONE) \
    ROW(int8_channel, EB_I8, 8, -127, 127, EB_PER_CHANNEL, 0, EB_F32, EB_ZERO_NONE) \
    ROW(int4_group32, EB_U8, 4, -8, 7, EB_PER_GROUP, 32, EB_F32, EB_ZERO_NONE) \
    ROW(int4_group64, EB_U8, 4, -8, 7, EB_PER_GROUP, 64, EB_F32, EB_ZERO_NONE) \
    ROW(int4_group128, EB_U8, 4, -8, 7, EB_PER_GROUP, 128, EB_F32, EB_ZERO_NONE) \
    ROW(int4_group32_zero, EB_U8, 4, 0, 15, EB_PER_GROUP, 32, EB_F32, EB_ZERO_INTEGER) \
    ROW(int4_group64_zero, EB_U8, 4, 0, 15, EB_PER_GROUP, 64, EB_F32, EB_ZERO_INTEGER) \
    ROW(int4_group128_zero, EB_U8, 4, 0, 15, EB_PER_GROUP, 128, EB_F32, EB_ZERO_INTEGER) \
    ROW(q8_0, EB_I8, 8, -128, 127, EB_PER_GROUP, 32, EB_F16, EB_ZERO_NONE) \
    ROW(q4_0, EB_U8, 4, 0, 15, EB_PER_GROUP, 32, EB_F16, EB_ZERO_MIDDLE) \
    ROW(q4_1, EB_U8, 4, 0, 15, EB_PER_GROUP, 32, EB_F16, EB_ZERO_MINIMUM)

#endif
