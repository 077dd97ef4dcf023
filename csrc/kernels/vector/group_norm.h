/* The loops of group_norm.c for elements SCALAR: included once for each type, with NAMED(name) for the names of functions. */

typedef SCALAR NAMED(vector) __attribute__((vector_size(EB_VL * 4)));
typedef SCALAR NAMED(unaligned) __attribute__((vector_size(EB_VL * 4), aligned(1), may_alias));
enum { NAMED(LANES) = EB_VL * 4 / sizeof(SCALAR) };

/* The sum of the distances of a run from `centre`, or of their squares. */
EB_INLINE double NAMED(sum)(const SCALAR *x, int64_t n, SCALAR centre, const int squares) {
    enum { LANES = NAMED(LANES) };
    NAMED(vector) sums[SUMS] = {{0}};
    int64_t i = 0;
    for (; i + SUMS * LANES <= n; i += SUMS * LANES)
        EB_UNROLL
        for (int s = 0; s < SUMS; s++) {
            const NAMED(vector) v = *(const NAMED(unaligned) *)(x + i + s * LANES) - centre;
            sums[s] += squares ? v * v : v;
        }
    for (; i + LANES <= n; i += LANES) {
        const NAMED(vector) v = *(const NAMED(unaligned) *)(x + i) - centre;
        sums[0] += squares ? v * v : v;
    }
    sums[0] = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    SCALAR lanes[LANES];
    double total = 0;
    memcpy(lanes, &sums[0], sizeof lanes);
    for (int l = 0; l < LANES; l++) total += lanes[l];
    for (; i < n; i++) {
        const SCALAR v = x[i] - centre;
        total += squares ? v * v : v;
    }
    return total;
}

/* What becomes of a channel: (x - middle) * factor + shift. `shift` has what `middle` lacks of the mean. */
EB_INLINE void NAMED(choose)(const statistics *s, double scale, const SCALAR *weight, const SCALAR *bias, int64_t channel,
                             SCALAR *middle, SCALAR *factor, SCALAR *shift) {
    *middle = (SCALAR)s->mean;
    const double scaled = weight ? scale * weight[channel] : scale, rest = s->mean - *middle;
    *factor = (SCALAR)scaled;
    *shift = (SCALAR)((bias ? bias[channel] : 0) - (rest == 0 ? 0 : rest * scaled));
}

EB_INLINE double NAMED(scale)(const statistics *s, double epsilon) {
    return 1 / sqrt(s->squares / s->count + (sizeof(SCALAR) == 4 ? epsilon_of(epsilon) : epsilon));
}

static void NAMED(norm_first)(const tiling *t, const SCALAR *x, const SCALAR *weight, const SCALAR *bias, SCALAR *y, int64_t group,
                              double epsilon) {
    const int64_t places = t->places, n = places * t->width, first = group * t->width % t->channels;
    x += group * n, y += group * n;
    statistics s = {0};
    for (int64_t i = 0; i < n; i += BLOCK_ELEMENTS) {
        const int64_t count = eb_min(BLOCK_ELEMENTS, n - i);
        const double mean = x[i] + NAMED(sum)(x + i, count, x[i], 0) / (double)count; /* exact where all are equal */
        join(&s, (double)count, mean, NAMED(sum)(x + i, count, (SCALAR)mean, 1));
    }
    const double scale = NAMED(scale)(&s, epsilon);
    for (int64_t c = 0; c < t->width; c++, x += places, y += places) {
        SCALAR middle, factor, shift;
        NAMED(choose)(&s, scale, weight, bias, first + c, &middle, &factor, &shift);
        EB_INDEPENDENT
        for (int64_t i = 0; i < places; i++) y[i] = (x[i] - middle) * factor + shift;
    }
}

/* For each of some vectors side by side: the sum down `places`, `step` elements apart, of the distances from `centre`, or of
 * their squares. */
EB_INLINE void NAMED(sum_vectors)(const SCALAR *x, int64_t step, int64_t places, const SCALAR *centre, SCALAR *sums,
                                  const int squares, const int count) {
    enum { LANES = NAMED(LANES) };
    NAMED(vector) total[SUMS] = {{0}};
    for (int64_t p = 0; p < places; p++, x += step)
        EB_UNROLL
        for (int i = 0; i < count; i++) {
            const NAMED(vector) v =
                *(const NAMED(unaligned) *)(x + i * LANES) - *(const NAMED(unaligned) *)(centre + i * LANES);
            total[i] += squares ? v * v : v;
        }
    for (int i = 0; i < count; i++) *(NAMED(unaligned) *)(sums + i * LANES) = total[i];
}

EB_INLINE void NAMED(sum_columns)(const SCALAR *x, int64_t step, int64_t places, const SCALAR *centre, SCALAR *sums, int64_t n,
                                  const int squares) {
    enum { LANES = NAMED(LANES), WIDE = SIDE / LANES < SUMS ? SIDE / LANES : SUMS };
    int64_t c = 0;
    for (; c + WIDE * LANES <= n; c += WIDE * LANES)
        NAMED(sum_vectors)(x + c, step, places, centre + c, sums + c, squares, WIDE);
    for (; c + LANES <= n; c += LANES) NAMED(sum_vectors)(x + c, step, places, centre + c, sums + c, squares, 1);
    for (; c < n; c++) {
        sums[c] = 0;
        for (int64_t p = 0; p < places; p++) {
            const SCALAR v = x[p * step + c] - centre[c];
            sums[c] += squares ? v * v : v;
        }
    }
}

/* `n` channels from `first` on, whole groups, of the image that begins at x. */
static void NAMED(norm_last)(const tiling *t, const SCALAR *x, const SCALAR *weight, const SCALAR *bias, SCALAR *y, int64_t first,
                             int64_t n, double epsilon, double *scratch) {
    double *mean = scratch, *squares = scratch + n;
    SCALAR *centre = (SCALAR *)(scratch + 2 * n), *sums = (SCALAR *)(scratch + 3 * n), *factor = (SCALAR *)(scratch + 4 * n),
         *shift = (SCALAR *)(scratch + 5 * n);
    const int64_t places = t->places, step = t->channels;
    const int64_t block = eb_min(MOST_PLACES, eb_max(FEWEST_PLACES, BLOCK_ELEMENTS / n));
    x += first, y += first;
    for (int64_t p = 0; p < places; p += block) {
        const int64_t count = eb_min(block, places - p);
        const double part = 1 / (double)count, share = (double)count / (double)(p + count), before = (double)p * share;
        const SCALAR *x0 = x + p * step; /* about its first elements a mean is exact where all are equal */
        NAMED(sum_columns)(x0, step, count, x0, sums, n, 0);
        for (int64_t c = 0; c < n; c++) centre[c] = (SCALAR)(x0[c] + sums[c] * part);
        if (p == 0) {
            for (int64_t c = 0; c < n; c++) mean[c] = x0[c] + sums[c] * part;
        } else {
            for (int64_t c = 0; c < n; c++) {
                const double apart = x0[c] + sums[c] * part - mean[c];
                mean[c] += apart * share;
                squares[c] += apart * apart * before;
            }
        }
        NAMED(sum_columns)(x0, step, count, centre, sums, n, 1);
        for (int64_t c = 0; c < n; c++) squares[c] = p ? squares[c] + sums[c] : sums[c];
    }
    for (int64_t g = 0; g < n; g += t->width) {
        statistics s = {.count = (double)(places * t->width)};
        for (int64_t c = g; c < g + t->width; c++) s.mean += mean[c];
        s.mean /= (double)t->width;
        for (int64_t c = g; c < g + t->width; c++)
            s.squares += squares[c] + (double)places * (mean[c] - s.mean) * (mean[c] - s.mean);
        const double scale = NAMED(scale)(&s, epsilon);
        for (int64_t c = g; c < g + t->width; c++)
            NAMED(choose)(&s, scale, weight, bias, first + c, &centre[c], &factor[c], &shift[c]);
    }
    for (int64_t p = 0; p < places; p++, x += step, y += step) {
        EB_INDEPENDENT
        for (int64_t c = 0; c < n; c++) y[c] = (x[c] - centre[c]) * factor[c] + shift[c];
    }
}

static eb_status NAMED(run)(const eb_node *node, void *const *bases, int64_t begin, int64_t end, void *scratch) {
    const tiling *t = tiling_of(node);
    const SCALAR *x = eb_data(eb_input(node, EB_IN_GROUP_NORM_X), bases);
    const SCALAR *weight = eb_optional_data(node, EB_IN_GROUP_NORM_WEIGHT, bases);
    const SCALAR *bias = eb_optional_data(node, EB_IN_GROUP_NORM_BIAS, bases);
    SCALAR *y = eb_data(eb_output(node), bases);
    const double epsilon = node->reals[EB_REAL_GROUP_NORM_EPSILON];
    for (int64_t tile = begin; tile < end; tile++) {
        if (t->is_last) {
            const int64_t image = tile / t->tiles * t->places * t->channels, first = tile % t->tiles * t->tile;
            const int64_t n = eb_min(t->tile, t->channels - first);
            NAMED(norm_last)(t, x + image, weight, bias, y + image, first, n, epsilon, scratch);
        } else {
            for (int64_t g = tile * t->tile; g < eb_min(t->groups, (tile + 1) * t->tile); g++)
                NAMED(norm_first)(t, x, weight, bias, y, g, epsilon);
        }
    }
    return EB_OK;
}
