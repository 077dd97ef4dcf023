/* The kernels, timed: `test_kernels bench ISA [part of a kernel's name]`. This file has the one list of shapes,
 * but for the convolutions of networks (layers.h).
 *
 * It works round by round at the command of scripts/bench_kernels.py, which times other libraries between two rounds, so
 * that all see the same machine. Lines are tab-separated:
 *   case OP NAME FLOPS READ WRITTEN INTS OPERANDS   bytes; ints and shapes as 1,2;3  ("-": absent; "f32:2,3")
 *   round FMA READ COPY KERNEL SECONDS EXECUTED ... answers one line on standard input; first the roofs of this moment:
 *                                                   FLOP/s with ISA, bytes/s of memory read, and of memory copied;
 *                                                   EXECUTED: the kernel's FLOPs where they are not the op's, else 0
 * A case ends when an empty line comes in.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "case.h"
#include "layers.h"
#include "memory.h"
#include "suite.h"

/* Time of this thread on a core: other processes that push it aside do not count. */
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { MOST_KERNELS = 8, MEMORY_BYTES = 256 << 20 /* beyond any cache */ };
static const char *chosen_isa, *chosen_part;
static char *memory;

static int is_chosen(const eb_kernel_info *info) {
    int everywhere = strcmp(info->variant, "openblas") == 0 || strcmp(info->variant, "blocked") == 0 || strcmp(info->variant, "rows") == 0;
    return (strcmp(info->isa, chosen_isa) == 0 || everywhere) && strcmp(info->variant, "reference") != 0 &&
           strstr(info->name, chosen_part);
}

/* Seconds of a run: the mean of as many as take two milliseconds, after one that is not timed: measuring the roofs has
 * emptied the caches, which a run of two milliseconds alone would pay for and shorter ones would not. */
static double time_of(prepared *p) {
    eb_run(&p->node, 0, 1, p->bases, 1, NULL, NULL);
    for (int repeats = 1;; repeats *= 2) {
        double start = now();
        for (int r = 0; r < repeats; r++) eb_run(&p->node, 0, 1, p->bases, 1, NULL, NULL);
        double seconds = now() - start;
        if (seconds >= 2e-3) return seconds / repeats;
    }
}

static void describe_case(const test_case *c, double flops) {
    static const char *const dtypes[] = {"f32", "f64", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"};
    double bytes[2] = {0}; /* read, written */
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++)
        if (c->operands[i].dtype >= 0) bytes[i >= c->node.n_inputs] += (double)c->bytes[i];
    printf("case\t%s\t%s\t%.0f\t%.0f\t%.0f\t", c->op, c->name, flops, bytes[0], bytes[1]);
    for (int i = 0; i < c->node.n_ints; i++) printf("%s%ld", i ? "," : "", (long)c->ints[i]);
    putchar('\t');
    for (int i = 0; i < c->node.n_inputs; i++) {
        const eb_tensor *t = &c->operands[i];
        printf("%s%s", i ? ";" : "", t->dtype < 0 ? "-" : dtypes[t->dtype]);
        for (int axis = 0; axis < t->rank && t->dtype >= 0; axis++) printf("%c%ld", axis ? ',' : ':', (long)t->shape[axis]);
    }
    putchar('\n');
}

/* Operands as a program has them: aligned to 64 bytes, large ones on large pages, and in memory that has been touched. */
static void align_operands(test_case *c) {
    for (int i = 0; i < c->node.n_inputs + c->node.n_outputs; i++) {
        if (!c->data[i]) continue;
        void *data = eb_allocate(c->bytes[i]);
        memset(data, 0, (size_t)c->bytes[i]);
        if (i < c->node.n_inputs) memcpy(data, c->data[i], (size_t)c->bytes[i]);
        free(c->data[i]);
        c->data[i] = data;
    }
}

/* Time all chosen kernels of the case's op in turn, as often as the script asks. */
static void bench_case(test_case *c, double flops) {
    prepared p[MOST_KERNELS];
    int32_t ids[MOST_KERNELS];
    int count = 0;
    align_operands(c);
    for (int32_t k = 0; k < eb_kernel_count() && count < MOST_KERNELS; k++) {
        eb_kernel_info info = eb_kernel_describe(k);
        if (strcmp(info.op, c->op) != 0 || !runs_here(k) || !is_chosen(&info)) continue;
        if (case_prepare(c, k, 1, &p[count]) == EB_OK)
            ids[count++] = k;
        else
            prepared_free(&p[count]);
    }
    if (count) describe_case(c, flops);
    for (char line[16]; count;) {
        fflush(stdout);
        if (!fgets(line, sizeof line, stdin) || line[0] == '\n') break;
        printf("round");
        printf("\t%.6g", eb_measure_fma(chosen_isa, 1e-3));
        printf("\t%.6g", eb_measure_read(memory, MEMORY_BYTES, 4e-3));
        printf("\t%.6g", eb_measure_copy(memory, memory + MEMORY_BYTES / 2, MEMORY_BYTES / 2, 4e-3));
        for (int i = 0; i < count; i++) 
            printf("\t%s\t%.9g\t%ld", eb_kernel_describe(ids[i]).name, time_of(&p[i]), (long)p[i].node.operations);
        putchar('\n');
    }
    for (int i = 0; i < count; i++) prepared_free(&p[i]);
    case_end(c);
}

static void name_and_bench(test_case *c, int64_t rows, int64_t n, const char *what, double flops) {
    snprintf(c->name, sizeof c->name, "%ld x %ld%s", (long)rows, (long)n, what);
    bench_case(c, flops);
}

static void bench_linear(void) {
    static const int64_t rows[] = {16, 32, 128, 512, 1024};
    static const int64_t weights[][2] = {{768, 768}, {768, 3072}, {3072, 768}, {1024, 1024}, {1024, 4096}};
    static const int64_t others[][3] = {{1, 768, 768}, {1, 768, 3072}, {4, 768, 3072}, {8, 384, 1536}, {1, 8192, 8192}};
    int64_t shapes[30][3];
    for (int i = 0; i < 25; i++) {
        shapes[i][0] = rows[i % 5], shapes[i][1] = weights[i / 5][0], shapes[i][2] = weights[i / 5][1];
    }
    memcpy(shapes + 25, others, sizeof others);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t M = shapes[i][0], K = shapes[i][1], N = shapes[i][2];
        test_case c;
        make_linear(&c, M, N, K, DENSE, 1, EB_LINEAR_ACTIVATION_NONE);
        c.constant = 2;
        snprintf(c.name, sizeof c.name, "%ld x %ld x %ld", (long)M, (long)K, (long)N);
        bench_case(&c, 2.0 * (double)(M * N * K));
    }
    test_case c;
    make_linear(&c, 128, 3072, 768, DENSE, 1, EB_LINEAR_ACTIVATION_GELU);
    c.constant = 2;
    snprintf(c.name, sizeof c.name, "128 x 768 x 3072 gelu");
    bench_case(&c, 2.0 * 128 * 768 * 3072);
}

static void bench_gated_linear(void) {
    static const int64_t shapes[][3] = {{128, 1024, 3072}, {16, 1024, 3072}, {1, 1024, 3072}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t M = shapes[i][0], K = shapes[i][1], N = shapes[i][2];
        test_case c;
        make_gated_linear(&c, M, N, K, DENSE, 1, 0);
        c.ints[EB_INT_GATED_LINEAR_ACTIVATION] = EB_GATED_LINEAR_ACTIVATION_SILU;
        c.constant = 2;
        snprintf(c.name, sizeof c.name, "%ld x %ld x 2 * %ld silu", (long)M, (long)K, (long)N);
        bench_case(&c, 4.0 * (double)(M * N * K));
    }
}

static void bench_attention(void) {
    static const attention_shape shapes[] = {
        {1, 12, 12, 128, 128, 64, 64, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 384, 384, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 512, 512, 64, 64, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 1024, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 128, 128, 64, 64, NO_MASK, 1, 1, 0, DENSE},   {1, 12, 12, 512, 512, 64, 64, NO_MASK, 1, 1, 0, DENSE},
        {1, 12, 12, 128, 128, 64, 64, BOOL_KEYS, 0, 1, 0, DENSE}, {1, 12, 12, 128, 128, 64, 64, FLOAT_FULL, 0, 1, 0, DENSE},
        {1, 12, 12, 384, 384, 32, 32, NO_MASK, 0, 1, 0, DENSE},   {1, 12, 12, 384, 384, 128, 128, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 16, 16, 64, 64, NO_MASK, 0, 1, 0, DENSE},     {1, 12, 12, 1, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},
        {1, 12, 12, 4, 1024, 64, 64, NO_MASK, 0, 1, 0, DENSE},    {1, 16, 8, 1, 1024, 128, 128, NO_MASK, 0, 1, 0, DENSE},
        {1, 16, 8, 1, 8192, 128, 128, NO_MASK, 0, 1, 0, DENSE}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        attention_shape s = shapes[i];
        test_case c;
        make_attention(&c, &s);
        if (s.mask == BOOL_KEYS || s.mask == BOOL_FULL) memset(c.data[3], 1, (size_t)c.bytes[3]);
        double pairs = s.causal ? (double)(s.S * (s.S + 1)) / 2 : (double)(s.S * s.T);
        static const char *const masks[] = {"",           ", bool mask",  ", mask of keys",
                                            ", float mask", ", float keys", ", float plain"};
        snprintf(c.name, sizeof c.name, "%ld/%ld heads, %ld x %ld x %ld%s%s", (long)s.H, (long)s.G, (long)s.S, (long)s.T,
                 (long)s.D, masks[s.mask], s.causal ? ", causal" : "");
        bench_case(&c, 2.0 * (double)(s.B * s.H * (s.D + s.E)) * pairs);
    }
}

/* Layers of networks, each with bias and ReLU. A 1 x 1 of stride 1 is the linear that a program makes of it. */
static void bench_conv(void) {
    for (int i = 0; i < CONV_LAYERS; i++) {
        const conv_layer *l = &conv_layers[i];
        int64_t pad = l->kernel / 2, places = (l->size / l->stride) * (l->size / l->stride);
        test_case c;
        if (l->kernel == 1 && l->stride == 1)
            make_linear(&c, places, l->O, l->C, DENSE, 1, EB_LINEAR_ACTIVATION_RELU);
        else
            make_image_conv(&c, &(image_shape){1, l->size, l->size, l->C, l->O, l->kernel, l->kernel, l->stride, 1, pad,
                                               pad, pad, pad, 1, 0, EB_CONV_ACTIVATION_RELU, DENSE});
        c.constant = 2;
        snprintf(c.name, sizeof c.name, "%s %ldx%ld/%ld %ld to %ld, %ldx%ld", l->models, (long)l->kernel,
                 (long)l->kernel, (long)l->stride, (long)l->C, (long)l->O, (long)l->size, (long)l->size);
        bench_case(&c, 2.0 * (double)(places * l->C * l->O * l->kernel * l->kernel));
    }
}

/* The layers of ResNet-18 again, with their channels first: what is left to do for a program without `channels_last`. */
static void bench_channels_first(void) {
    for (int i = 0; i < CONV_LAYERS; i++) {
        const conv_layer *l = &conv_layers[i];
        if (strncmp(l->models, "resnet18", 8) != 0) continue;
        int64_t pad = l->kernel / 2, places = (l->size / l->stride) * (l->size / l->stride);
        test_case c;
        make_conv(&c, &(conv_shape){.N = 1, .C = l->C, .O = l->O, .groups = 1, .axes = 2, .in = {l->size, l->size},
                                    .kernel = {l->kernel, l->kernel}, .stride = {l->stride, l->stride}, .low = {pad, pad},
                                    .high = {pad, pad}, .dilation = {1, 1}, .bias = 1, .activation = EB_CONV_ACTIVATION_RELU});
        snprintf(c.name, sizeof c.name, "channels first, %ldx%ld/%ld %ld to %ld, %ldx%ld", (long)l->kernel, (long)l->kernel,
                 (long)l->stride, (long)l->C, (long)l->O, (long)l->size, (long)l->size);
        bench_case(&c, 2.0 * (double)(places * l->C * l->O * l->kernel * l->kernel));
    }
}

/* Pooling of pictures of 64 channels: ResNet's of 3 x 3 / 2, and 2 x 2 / 2, with their channels last and first. */
static void bench_pools(void) {
    for (int i = 0; i < 8; i++) {
        const int mean = i / 4, last = i % 2 == 0, kernel = i / 2 % 2 ? 2 : 3;
        const int64_t pad = kernel == 3;
        test_case c;
        make_image_pool(&c, mean ? "avg_pool" : "max_pool", &(image_shape){1, 112, 112, 64, 64, kernel, kernel, 2, 1, pad, pad,
                        pad, pad, 1, 0, 0, DENSE}, 0, last);
        snprintf(c.name, sizeof c.name, "%dx%d/2, 112x112, 64 channels %s", kernel, kernel, last ? "last" : "first");
        bench_case(&c, 56.0 * 56 * 64 * kernel * kernel);
    }
}

/* Convolutions of groups: the depthwise layers of EfficientNet-Lite0 at 224 x 224 and those of ResNeXt-50 32 x 4d. */
static void bench_groups(void) {
    static const struct {
        int64_t size, channels, each, kernel, stride;
    } shapes[] = {{112, 32, 1, 3, 1}, {112, 96, 1, 3, 2}, {56, 144, 1, 3, 1}, {56, 144, 1, 5, 2}, {28, 240, 1, 5, 1}, {28, 240, 1, 3, 2},
                  {14, 480, 1, 3, 1}, {14, 480, 1, 5, 1}, {14, 672, 1, 5, 1}, {14, 672, 1, 5, 2}, {7, 1152, 1, 5, 1}, {7, 1152, 1, 3, 1},
                  {56, 128, 4, 3, 1}, {28, 256, 8, 3, 1}, {14, 512, 16, 3, 1}, {7, 1024, 32, 3, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t size = shapes[i].size, C = shapes[i].channels, each = shapes[i].each, k = shapes[i].kernel, pad = k / 2;
        int64_t stride = shapes[i].stride, places = (size / stride) * (size / stride);
        test_case c;
        make_grouped_image_conv(&c, &(image_shape){1, size, size, C, C, k, k, stride, 1, pad, pad, pad, pad, 1, 0,
                                                   EB_CONV_ACTIVATION_RELU, DENSE}, C / each);
        snprintf(c.name, sizeof c.name, "%ld x %ld x %ld in groups of %ld, %ld x %ld / %ld", (long)size, (long)size, (long)C,
                 (long)each, (long)k, (long)k, (long)stride);
        bench_case(&c, 2.0 * (double)(places * C * each * k * k));
    }
}

/* The same layers behind the 1 x 1 that widens what they read, in one node: of EfficientNet-Lite0 again, with ReLU6. */
static void bench_expand(void) {
    static const struct {
        int64_t size, C, O, kernel, stride;
    } shapes[] = {{112, 16, 96, 3, 2}, {56, 24, 144, 3, 1}, {56, 24, 144, 5, 2}, {28, 40, 240, 5, 1}, {28, 40, 240, 3, 2},
                  {14, 80, 480, 3, 1}, {14, 80, 480, 5, 1}, {14, 112, 672, 5, 1}, {14, 112, 672, 5, 2}, {7, 192, 1152, 5, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t size = shapes[i].size, C = shapes[i].C, O = shapes[i].O, k = shapes[i].kernel, pad = k / 2;
        int64_t stride = shapes[i].stride, places = (size / stride) * (size / stride);
        test_case c;
        make_expand_depthwise(&c, &(image_shape){1, size, size, C, O, k, k, stride, 1, pad, pad, pad, pad, 1, 0,
                                                 EB_EXPAND_DEPTHWISE_ACTIVATION_RELU6, DENSE}, EB_EXPAND_DEPTHWISE_ACTIVATION_RELU6);
        snprintf(c.name, sizeof c.name, "%ld x %ld x %ld to %ld, then %ld x %ld / %ld", (long)size, (long)size, (long)C,
                 (long)O, (long)k, (long)k, (long)stride);
        bench_case(&c, 2.0 * (double)(size * size * C * O + places * O * k * k));
    }
}

/* Layers that make pictures larger: of generators and decoders (4 x 4 / 2), of U-Nets (2 x 2 / 2), and those with one more
 * row and column (3 x 3 / 2); the upsampling of every channel alone. All with bias and ReLU. */
static void bench_conv_transpose(void) {
    static const struct {
        int64_t size, C, O, kernel, pad, more, groups;
    } shapes[] = {{4, 512, 256, 4, 1, 0, 1},  {8, 256, 128, 4, 1, 0, 1},  {16, 256, 128, 4, 1, 0, 1}, {32, 128, 64, 4, 1, 0, 1},
                  {64, 64, 3, 4, 1, 0, 1},    {28, 256, 128, 2, 0, 0, 1}, {56, 128, 64, 2, 0, 0, 1},  {32, 128, 64, 3, 1, 1, 1},
                  {28, 64, 64, 4, 1, 0, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        int64_t size = shapes[i].size, C = shapes[i].C, O = shapes[i].O, k = shapes[i].kernel, pad = shapes[i].pad;
        int64_t groups = shapes[i].groups, high = pad - shapes[i].more;
        test_case c;
        make_conv_transpose(&c, &(conv_shape){.N = 1, .C = C, .O = O, .groups = groups, .axes = 2, .in = {size, size},
                                              .kernel = {k, k}, .stride = {2, 2}, .low = {pad, pad}, .high = {high, high},
                                              .dilation = {1, 1}, .activation = EB_CONV_TRANSPOSE_ACTIVATION_RELU,
                                              .bias = 1, .channels_last = 1});
        snprintf(c.name, sizeof c.name, "%ldx%ld/2 %ld to %ld, %ldx%ld%s", (long)k, (long)k, (long)C, (long)O, (long)size,
                 (long)size, groups > 1 ? ", each channel alone" : "");
        bench_case(&c, 2.0 * (double)(size * size * C * O / groups * k * k));
    }
}

/* Interpolation along an axis to twice its length, with the channels last (axes 1 and 2) and in the model's order (axis 3),
 * and one pixel of padding around pictures in every mode, likewise. */
static void bench_borders(void) {
    static const int64_t last[] = {1, 56, 56, 64}, first[] = {1, 64, 56, 56}, around_last[] = {0, 1, 1, 0}, around_first[] = {0, 0, 1, 1};
    static const char *const modes[] = {"constant", "reflect", "replicate", "circular"};
    test_case c;
    for (int taps = 2; taps <= 4; taps += 2)
        for (int axis = 1; axis <= 3; axis++) {
            make_resample(&c, axis, taps, axis == 3 ? first : last);
            memmove(c.name, strchr(c.name, ' ') + 1, strlen(strchr(c.name, ' ')));
            bench_case(&c, 2.0 * 2 * 56 * 56 * 64 * taps);
        }
    for (int64_t mode = EB_PAD_MODE_CONSTANT; mode <= EB_PAD_MODE_CIRCULAR; mode++)
        for (int is_last = 0; is_last < 2; is_last++) {
            const int64_t *around = is_last ? around_last : around_first;
            make_pad(&c, EB_F32, mode, 4, is_last ? last : first, around, around);
            snprintf(c.name, sizeof c.name, "56 x 56 x 64, %s%s", modes[mode], is_last ? ", channels last" : "");
            bench_case(&c, 0);
        }
}

static void bench_matmul(void) {
    static const int64_t shapes[][4] = {{128, 128, 64, 1}, {128, 64, 128, 0}, {512, 512, 512, 0}, {16, 768, 768, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int64_t *s = shapes[i];
        test_case c;
        make_matmul(&c, s[0], s[1], s[2], 0, (int)s[3], 0, DENSE);
        snprintf(c.name, sizeof c.name, "6 x %ld x %ld x %ld transpose_b %ld", (long)s[0], (long)s[2], (long)s[1], (long)s[3]);
        bench_case(&c, 12.0 * (double)(s[0] * s[1] * s[2]));
    }
}

/* Where log and pow have results: other libraries take a slow way to a NaN. */
static void positive(test_case *c, int i) {
    float *x = c->data[i];
    for (int64_t n = 0; n < c->bytes[i] / 4; n++) x[n] = x[n] < 0 ? -x[n] : x[n];
}

static void bench_casts(int64_t rows, int64_t n) {
    static const eb_dtype types[][2] = {{EB_F32, EB_F16}, {EB_F16, EB_F32}, {EB_F32, EB_BF16}, {EB_BF16, EB_F32}};
    static const char *const names[] = {" f32 to f16", " f16 to f32", " f32 to bf16", " bf16 to f32"};
    for (int i = 0; i < 4; i++) {
        test_case c;
        make_cast(&c, types[i][0], types[i][1], rows, n, DENSE);
        name_and_bench(&c, rows, n, names[i], 0);
    }
}

static void bench_words(int64_t rows, int64_t n) {
    static const char *const ops[] = {"add", "eq", "logical_and"};
    static const eb_dtype types[][2] = {{EB_I64, EB_I64}, {EB_I64, EB_BOOL}, {EB_BOOL, EB_BOOL}};
    for (int i = 0; i < 3; i++) {
        test_case c;
        case_begin(&c, ops[i], 0, " ");
        for (int operand = 0; operand < 2; operand++) case_input(&c, types[i][0], DENSE, 2, SHAPE(rows, n));
        case_output(&c, types[i][1], DENSE, SHAPE(rows, n));
        name_and_bench(&c, rows, n, types[i][0] == EB_I64 ? " i64" : " bool", (double)(rows * n));
    }
}

/* In the second-level cache, and beyond the last level (64 MiB and more): there the GB/s column counts. */
static void bench_streams(void) {
    static const int64_t sizes[][2] = {{128, 768}, {16384, 1024}};
    static const char *const unary[] = {"gelu", "exp", "tanh", "relu", "expm1", "log", "log1p", "sin", "floor"}, *const norms[] = {"layer_norm", "rms_norm"};
    static const char *const reductions[] = {"sum", "amax", "var"};
    test_case c;
    for (int i = 0; i < 2; i++) {
        int64_t rows = sizes[i][0], n = sizes[i][1];
        double count = (double)(rows * n);
        for (int j = 0; j < 9; j++) {
            make_unary(&c, unary[j], rows, n, DENSE);
            if (strcmp(unary[j], "log") == 0) positive(&c, 0);
            name_and_bench(&c, rows, n, "", count);
        }
        make_binary(&c, "add", rows, n, 0, 0), name_and_bench(&c, rows, n, "", count);
        make_binary(&c, "add", rows, n, 0, 1), name_and_bench(&c, rows, n, " + 1 row", count);
        make_binary(&c, "pow", rows, n, 0, 0), positive(&c, 0), name_and_bench(&c, rows, n, "", count);
        for (int j = 0; j < 2; j++)
            for (int sum = 0; sum < 2; sum++)
                make_norm(&c, norms[j], rows / 2, n, 1, sum, DENSE), name_and_bench(&c, rows, n, sum ? " of a sum" : "", 8 * count);
        make_rope(&c, 1, rows, n / 128, 128, 0, DENSE), name_and_bench(&c, rows, n, " in heads of 128", 3 * count);
        make_softmax(&c, "softmax", rows, n, 1, DENSE), name_and_bench(&c, rows, n, "", 5 * count);
        for (int j = 0; j < 3; j++) {
            for (int axes = 2; axes <= 4; axes += 2) {
                make_reduction(&c, reductions[j], axes, 0, DENSE, (const int64_t[]){1, rows, n});
                name_and_bench(&c, rows, n, axes == 4 ? " inner" : " outer", count);
            }
        }
        make_arg(&c, "argmax", 2, 0, DENSE, (const int64_t[]){1, rows, n}), name_and_bench(&c, rows, n, " inner", count);
        make_chain(&c, rows, n), name_and_bench(&c, rows, n, " chain of 5", 5 * count);
        make_copy(&c, EB_F32, DENSE, SHAPE(rows, n)), name_and_bench(&c, rows, n, "", 0);
        bench_casts(rows, n);
        bench_words(rows, n);
    }
    make_arg(&c, "argmax", 2, 0, DENSE, (const int64_t[]){1, 1, 50257}), name_and_bench(&c, 1, 50257, " inner", 50257);
}

/* Rows of a table at 2048 positions, by each op that can; and single elements. */
static void bench_index(void) {
    static const char *const ops[] = {"embedding", "index_select", "index", "gather", "gather"};
    for (int i = 0; i < 5; i++) {
        test_case c;
        case_begin(&c, ops[i], 0, "2048 of 8192 x 768%s", i == 4 ? " by elements" : "");
        case_input(&c, EB_F32, DENSE, 1, SHAPE(8192, 768));
        if (i < 3)
            case_input(&c, EB_I64, DENSE, 8192, SHAPE(2048));
        else
            case_input(&c, EB_I64, DENSE, 8192, SHAPE(2048, 768));
        if (i == 3) c.operands[1].stride[0] = 1, c.operands[1].stride[1] = 0; /* expanded */
        case_output(&c, EB_F32, DENSE, SHAPE(2048, 768));
        c.node.n_ints = i > 0;
        c.ints[0] = i == 2; /* an axis; of index a mask of axes */
        memmove(c.name, strchr(c.name, ' ') + 1, strlen(strchr(c.name, ' ')));
        bench_case(&c, 0);
    }
}

/* Rows put into a copy of a cache: 12 heads of 1024 x 64. */
static void bench_index_put(void) {
    test_case c;
    case_begin(&c, "index_put", 0, "12 of 12 x 1024 x 64");
    case_input(&c, EB_F32, DENSE, 1, SHAPE(12, 1024, 64));
    case_input(&c, EB_F32, DENSE, 1, SHAPE(12, 1, 64));
    case_input(&c, EB_I64, DENSE, 12, SHAPE(12, 1));
    case_input(&c, EB_I64, DENSE, 1024, SHAPE(12, 1));
    case_output(&c, EB_F32, DENSE, SHAPE(12, 1024, 64));
    c.node.n_ints = 2;
    c.ints[EB_INT_INDEX_PUT_AXES] = 3;
    memmove(c.name, strchr(c.name, ' ') + 1, strlen(strchr(c.name, ' ')));
    bench_case(&c, 0);
}

/* The scan of a layer of Mamba-130M, with all that goes around it; 7 operations a state, 16 of them. */
static void bench_selective_scan(void) {
    static const int64_t lengths[] = {128, 1};
    for (int i = 0; i < 2; i++) {
        test_case c;
        make_selective_scan(&c, 1, lengths[i], 1536, 16, 1, 1, 1, DENSE);
        snprintf(c.name, sizeof c.name, "%ld x 1536, 16 states", (long)lengths[i]);
        bench_case(&c, (7.0 * 16 + 11) * (double)(lengths[i] * 1536));
    }
}

/* OpenBLAS from the file named by KERNELS_OPENBLAS, on one thread. */
static void load_openblas(void) {
    const char *path = getenv("KERNELS_OPENBLAS");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    eb_set_sgemm(library ? dlsym(library, "scipy_cblas_sgemm") : NULL);
}

void bench(const char *isa, const char *part) {
    chosen_isa = isa;
    chosen_part = part;
    load_openblas();
    memory = eb_allocate(MEMORY_BYTES);
    memset(memory, 1, MEMORY_BYTES);
    bench_linear();
    bench_gated_linear();
    bench_matmul();
    bench_conv();
    bench_channels_first();
    bench_pools();
    bench_groups();
    bench_expand();
    bench_conv_transpose();
    bench_borders();
    bench_attention();
    bench_streams();
    bench_index();
    bench_index_put();
    bench_selective_scan();
    free(memory);
}
