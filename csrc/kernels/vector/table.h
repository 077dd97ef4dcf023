/* Rows of a table [V, n] of floats, or of what floats are stored as. A row of the table is contiguous. */
#ifndef EB_TABLE_H
#define EB_TABLE_H

#include "floats16.h"

typedef enum { TABLE_OTHER, TABLE_FLOATS, TABLE_BFLOATS, TABLE_HALVES, TABLE_BYTES } eb_table_form;

/* TABLE_OTHER: read_table_row cannot read the table. Bytes have one scale, or one for each row. */
static inline eb_table_form table_form(const eb_tensor *table) {
    const eb_encoding how = eb_encoding_describe(table->encoding);
    if (table->encoding == 0) return table->dtype == EB_F32 ? TABLE_FLOATS : TABLE_OTHER;
    if (how.per == EB_PER_ELEMENT) return how.stored == EB_BF16 ? TABLE_BFLOATS : how.stored == EB_F16 ? TABLE_HALVES : TABLE_OTHER;
    const int has_row_scales = how.per == EB_PER_TENSOR || (how.per == EB_PER_CHANNEL && table->axis == 0);
    return has_row_scales && how.stored == EB_I8 && how.bits == 8 && how.zero == EB_ZERO_NONE ? TABLE_BYTES : TABLE_OTHER;
}

static inline float table_scale(const eb_node *node, void *const *bases, const eb_tensor *table, int64_t id) {
    const eb_tensor *scale = eb_input(node, table->parts);
    return ((const float *)eb_data(scale, bases))[scale->rank ? id * scale->stride[0] : 0];
}

/* n numbers of `bytes` bytes each, EB_VL at a time. */
EB_INLINE void decode_numbers(const char *from, int64_t bytes, int64_t n, vf (*load)(const void *), float *decoded) {
    int64_t i = 0;
    for (; i + EB_VL <= n; i += EB_VL) vf_store(decoded + i, load(from + i * bytes));
    if (i == n) return;
    char last[EB_VL * 4] = {0};
    memcpy(last, from + i * bytes, (size_t)((n - i) * bytes));
    vf_store_part(decoded + i, load(last), n - i);
}

/* Row `id` of input `input` as floats: where it lies if those are stored, else decoded into `decoded`, each rounded once. */
static inline const float *read_table_row(const eb_node *node, void *const *bases, int input, int64_t id, float *decoded) {
    const eb_tensor *table = eb_input(node, input);
    const char *data = eb_data(table, bases);
    const int64_t n = table->shape[1], first = id * table->stride[0];
    switch (table_form(table)) {
    case TABLE_BFLOATS: decode_numbers(data + first * 2, 2, n, vf_load_bfloats, decoded); return decoded;
    case TABLE_HALVES: decode_numbers(data + first * 2, 2, n, vf_load_halves, decoded); return decoded;
    case TABLE_BYTES: {
        const float scale = table_scale(node, bases, table, id);
        decode_numbers(data + first, 1, n, vf_load_bytes, decoded);
        for (int64_t i = 0; i < n; i++) decoded[i] *= scale;
        return decoded;
    }
    default: return (const float *)(const void *)data + first;
    }
}

#endif
