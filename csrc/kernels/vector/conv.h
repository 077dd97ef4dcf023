/* conv over two spatial axes of channels-last images, as an implicit product of matrices: rows are the places of a row of
 * the result, and for each row of the kernel x lies as the product wants it, since the taps of that row are neighbours and
 * the channels of a tap are contiguous. Nothing is unfolded; the sums of a panel of channels go on from one row of the
 * kernel to the next in y, which stays in the second-level cache.
 *
 * Around a padded x its rows are first copied into scratch with their zeros. The weight is packed into panels (gemm.h)
 * whose k runs over the kernel's rows, its columns, the channels.
 */
#include "gemm.h"

/* private: rows of the result a tile, tiles a picture over rows, panels a tile, tiles over panels */
enum { AT_ROWS, AT_ROW_TILES, AT_PANELS, AT_COLUMN_TILES };

typedef struct {
    int64_t H, W, C, O, out_h, out_w, kernel_h, kernel_w;
    int64_t stride_h, stride_w, low_h, low_w, dilation_h, dilation_w;
    int pads;
    int64_t rows, width;                    /* of the padded copy of a tile */
    int64_t segments, taps_a_segment, depth; /* pieces of k that lie in one piece in x too, and how long one is */
} problem;

static problem describe(const eb_node *node) {
    const eb_tensor *x = eb_input(node, 0), *w = eb_input(node, 1), *y = eb_output(node);
    const int64_t *ints = node->ints;
    problem p = {.H = x->shape[1], .W = x->shape[2], .C = x->shape[3], .O = y->shape[3]};
    p.out_h = y->shape[1], p.out_w = y->shape[2], p.kernel_h = w->shape[2], p.kernel_w = w->shape[3];
    p.stride_h = ints[EB_INT_CONV_STRIDE], p.stride_w = ints[EB_INT_CONV_STRIDE + 1];
    p.low_h = ints[EB_INT_CONV_LOW], p.low_w = ints[EB_INT_CONV_LOW + 1];
    p.dilation_h = ints[EB_INT_CONV_DILATION], p.dilation_w = ints[EB_INT_CONV_DILATION + 1];
    p.pads = p.low_h || p.low_w || ints[EB_INT_CONV_HIGH] || ints[EB_INT_CONV_HIGH + 1];
    p.width = p.W + p.low_w + ints[EB_INT_CONV_HIGH + 1];
    p.rows = (node->private[AT_ROWS] - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1;
    p.taps_a_segment = p.dilation_w == 1 ? p.kernel_w : 1;
    p.segments = p.kernel_h * p.kernel_w / p.taps_a_segment;
    p.depth = p.taps_a_segment * p.C;
    return p;
}

/* Rows of the result whose padded rows of x stay in the second-level cache, and as many tiles as a few threads need. */
static void cut(eb_node *node) {
    enum { X_BYTES = 256 << 10, TILES = 8 };
    problem p = describe(node);
    int64_t reach = (p.kernel_h - 1) * p.dilation_h + 1, fitting = X_BYTES / 4 / eb_max(1, p.width * p.C);
    int64_t rows = eb_max(1, eb_min(p.out_h, (fitting - reach) / p.stride_h + 1)), panels = eb_ceil_div(p.O, EB_NR);
    node->private[AT_ROW_TILES] = eb_ceil_div(p.out_h, rows);
    node->private[AT_ROWS] = eb_ceil_div(p.out_h, node->private[AT_ROW_TILES]);
    int64_t others = eb_input(node, 0)->shape[0] * node->private[AT_ROW_TILES];
    int64_t column_tiles = eb_min(panels, eb_ceil_div(TILES, eb_max(1, others)));
    node->private[AT_PANELS] = eb_ceil_div(panels, column_tiles);
    node->private[AT_COLUMN_TILES] = eb_ceil_div(panels, node->private[AT_PANELS]);
    node->tiles = others * node->private[AT_COLUMN_TILES];
}

static eb_status plan(eb_node *node) {
    const eb_tensor *x = eb_input(node, 0), *w = eb_input(node, 1), *y = eb_output(node);
    for (int i = 0; i <= node->n_inputs; i++)
        if (node->operands[i].dtype != EB_F32 && node->operands[i].dtype >= 0) return EB_NOT_APPLICABLE;
    int fits = x->rank == 4 && node->ints[EB_INT_CONV_CHANNELS_LAST] && node->ints[EB_INT_CONV_GROUPS] == 1;
    if (!fits || !w->is_packed || !eb_is_dense(y)) return EB_NOT_APPLICABLE;
    if (!eb_is_dense(x) || (eb_is_present(node, 2) && !eb_is_dense(eb_input(node, 2)))) return EB_NEEDS_DENSE;
    if (eb_is_present(node, 3) && !eb_is_dense(eb_input(node, 3))) return EB_NEEDS_DENSE;
    if (eb_size(y) == 0) return EB_OK;
    cut(node);
    problem p = describe(node);
    node->scratch_bytes = p.pads ? p.rows * p.width * p.C * 4 : 0;
    return EB_OK;
}

static int64_t packed_bytes(const eb_node *node, int32_t input) {
    const eb_tensor *w = eb_input(node, 1);
    int fits = w->rank == 4 && node->ints[EB_INT_CONV_CHANNELS_LAST] && node->ints[EB_INT_CONV_GROUPS] == 1;
    if (input != 1 || w->dtype != EB_F32 || !fits) return 0;
    return eb_ceil_div(w->shape[0], EB_NR) * EB_NR * w->shape[1] * w->shape[2] * w->shape[3] * 4;
}

static void pack(const eb_node *node, int32_t input, const void *source, void *destination) {
    const eb_tensor *w = eb_input(node, input);
    int64_t O = w->shape[0], C = w->shape[1], kernel_w = w->shape[3], taps = w->shape[2] * kernel_w;
    for (int64_t o = 0; o < O; o += EB_NR)
        for (int64_t tap = 0; tap < taps; tap++)
            pack_panel((const eb_float_unaligned *)source + o * w->stride[0] + tap / kernel_w * w->stride[2] +
                           tap % kernel_w * w->stride[3],
                       w->stride[1], w->stride[0], C, eb_min(EB_NR, O - o), (float *)destination + (o * taps + tap * EB_NR) * C);
}

/* Rows of one picture from `first` on, counted with the padding, zeros where there is none. */
static void copy_padded(const problem *p, const float *x, int64_t first, int64_t rows, float *to) {
    const int64_t left = p->low_w * p->C, whole = p->W * p->C, line = p->width * p->C;
    for (int64_t r = 0; r < rows; r++, to += line) {
        int64_t from = first + r - p->low_h;
        if (from < 0 || from >= p->H) {
            memset(to, 0, (size_t)line * 4);
            continue;
        }
        memset(to, 0, (size_t)left * 4);
        memcpy(to + left, x + from * whole, (size_t)whole * 4);
        memset(to + left + whole, 0, (size_t)(line - left - whole) * 4);
    }
}

/* One panel of one tile. x: the first row that the tile reads, with padding; y and residual: the tile's first place. */
static void run_panel(const problem *p, const float *x, int64_t rows, eb_product product) {
    const int64_t line = p->width * p->C, y_line = p->out_w * p->O, columns = p->kernel_w / p->taps_a_segment;
    float *const y = product.y;
    const float *const bias = product.bias, *const residual = product.residual, *const b = product.b;
    const eb_activation activation = product.activation;
    for (int64_t s = 0; s < p->segments; s++) {
        const float *taps = x + s / columns * p->dilation_h * line + s % columns * p->dilation_w * p->C;
        product.b = b + s * p->depth * EB_NR;
        product.bias = s ? NULL : bias;
        product.activation = s + 1 < p->segments ? NULL : activation;
        for (int64_t r = 0; r < rows; r++) {
            product.x = taps + r * p->stride_h * line;
            product.y = y + r * y_line;
            product.residual = s ? product.y : residual ? residual + r * y_line : NULL;
            multiply_panel(&product);
        }
    }
}

static eb_status run(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const problem p = describe(node);
    const int64_t *at = node->private;
    const float *bias = eb_is_present(node, 2) ? eb_data(eb_input(node, 2), bases) : NULL;
    const float *residual = eb_is_present(node, 3) ? eb_data(eb_input(node, 3), bases) : NULL;
    const float *weight = eb_data(eb_input(node, 1), bases);
    float *y = eb_data(eb_output(node), bases);
    for (int64_t tile = begin; tile < end; tile++) {
        int64_t block = tile / at[AT_COLUMN_TILES], picture = block / at[AT_ROW_TILES];
        int64_t first = block % at[AT_ROW_TILES] * at[AT_ROWS], rows = eb_min(at[AT_ROWS], p.out_h - first);
        if (rows <= 0) continue;
        const float *x = (const float *)eb_data(eb_input(node, 0), bases) + picture * p.H * p.W * p.C;
        if (p.pads) {
            copy_padded(&p, x, first * p.stride_h, (rows - 1) * p.stride_h + (p.kernel_h - 1) * p.dilation_h + 1, scratch);
            x = scratch;
        } else {
            x += first * p.stride_h * p.W * p.C;
        }
        int64_t o = tile % at[AT_COLUMN_TILES] * at[AT_PANELS] * EB_NR, o_end = eb_min(p.O, o + at[AT_PANELS] * EB_NR);
        for (; o < o_end; o += EB_NR) {
            int64_t place = (picture * p.out_h + first) * p.out_w * p.O + o;
            eb_product product = {.M = p.out_w,
                                  .columns = eb_min(EB_NR, p.O - o),
                                  .K = p.depth,
                                  .x_row = p.stride_w * p.C,
                                  .x_k = 1,
                                  .b = weight + o * p.segments * p.depth,
                                  .ldb = EB_NR,
                                  .y = y + place,
                                  .ldy = p.O,
                                  .alpha = 1,
                                  .bias = bias ? bias + o : NULL,
                                  .residual = residual ? residual + place : NULL,
                                  .ldr = p.O,
                                  .activation = activations[node->ints[EB_INT_CONV_ACTIVATION]]};
            run_panel(&p, x, rows, product);
        }
    }
    return EB_OK;
}
const eb_kernel EB_SYMBOL(conv, direct) = {plan, run, packed_bytes, pack};
