/* Sorting of entries: a key in the upper bits of an unsigned integer and the place of its element in the lower ones, so that
 * entries compare as keys do, and equal keys as their places. A file includes this for each width of entries, with ENTRY;
 * KEY, the signed type of keys; PLACE_BITS, the bits of a place; and NAME(name), a name of that width. */

/* The keys are signed, entries are not. */
static inline ENTRY NAME(entry)(KEY key, int64_t place) {
    enum { KEY_BITS = 8 * sizeof(KEY) };
    const ENTRY ordered = (ENTRY)key ^ (ENTRY)1 << (KEY_BITS - 1);
    return ordered << PLACE_BITS | (ENTRY)place;
}
static inline int64_t NAME(place)(ENTRY entry) { return (int64_t)(entry & (((ENTRY)1 << PLACE_BITS) - 1)); }
static inline uint8_t NAME(digit)(ENTRY entry, int byte) {
    return (uint8_t)((uint64_t)(entry >> PLACE_BITS) >> 8 * byte);
}

/* Put an entry in front of those of the `held` sorted ones that are behind it; there is room for one more. */
static inline void NAME(insert)(ENTRY *entries, int64_t held, ENTRY entry) {
    for (; held > 0 && entries[held - 1] > entry; held--) entries[held] = entries[held - 1];
    entries[held] = entry;
}

/* The entries in order, in one of the two buffers. They are moved once for each byte in which their keys differ, the last
 * one first. Equal keys come in the order of their places and keep it. */
static ENTRY *NAME(sort)(ENTRY *entries, ENTRY *other, int64_t count) {
    enum { KEY_BYTES = sizeof(KEY) };
    if (count < SHORTEST) {
        for (int64_t i = 1; i < count; i++) NAME(insert)(entries, i, entries[i]);
        return entries;
    }
    uint32_t starts[KEY_BYTES][256];
    memset(starts, 0, sizeof starts);
    for (int64_t i = 0; i < count; i++)
        for (int byte = 0; byte < KEY_BYTES; byte++) starts[byte][NAME(digit)(entries[i], byte)]++;
    for (int byte = 0; byte < KEY_BYTES; byte++) {
        uint32_t *start = starts[byte], next = 0;
        if (start[NAME(digit)(entries[0], byte)] == count) continue;
        for (int digit = 0; digit < 256; digit++) {
            const uint32_t found = start[digit];
            start[digit] = next, next += found;
        }
        for (int64_t i = 0; i < count; i++) other[start[NAME(digit)(entries[i], byte)]++] = entries[i];
        ENTRY *moved = other;
        other = entries, entries = moved;
    }
    return entries;
}

/* A key that at least `wanted` keys do not exceed, and not many more if they are mixed: the last one of the first `wanted` of
 * the least keys of `groups` groups. Group g has every key at g + any multiple of `groups`. */
static KEY NAME(find_limit)(const KEY *keys, int64_t count, int64_t wanted, int64_t groups, KEY *least, ENTRY *entries,
                            ENTRY *other) {
    memcpy(least, keys, (size_t)groups * sizeof *least);
    for (int64_t first = groups; first < count; first += groups)
        for (int64_t g = 0; g < eb_min(groups, count - first); g++)
            least[g] = keys[first + g] < least[g] ? keys[first + g] : least[g];
    for (int64_t g = 0; g < groups; g++) entries[g] = NAME(entry)(least[g], g);
    return least[NAME(place)(NAME(sort)(entries, other, groups)[wanted - 1])];
}

/* The first `wanted` entries in order, in one of the two buffers. Of a short line, they are inserted. Of a long one, those up
 * to a limit are sorted, and others skipped SCAN at a time. Fewer than `wanted` groups have keys below the limit, and only
 * the first `wanted` keys that are equal to it count; so the buffers have room_of(count, wanted) entries. */
static ENTRY *NAME(first)(const KEY *keys, int64_t count, int64_t wanted, KEY *least, ENTRY *entries, ENTRY *other) {
    const int64_t groups = groups_of(count, wanted);
    int64_t held = 0, equal = 0;
    if (count < SHORTEST) {
        for (int64_t i = 0; i < count; i++) {
            const ENTRY entry = NAME(entry)(keys[i], i);
            if (held == wanted && entry > entries[held - 1]) continue;
            held -= held == wanted;
            NAME(insert)(entries, held++, entry);
        }
        return entries;
    }
    if (!groups) {
        for (int64_t i = 0; i < count; i++) entries[i] = NAME(entry)(keys[i], i);
        return NAME(sort)(entries, other, count);
    }
    const KEY limit = NAME(find_limit)(keys, count, wanted, groups, least, entries, other);
    for (int64_t first = 0; first < count; first += SCAN) {
        const int64_t end = eb_min(count, first + SCAN);
        int has_some = end - first < SCAN;
        for (int64_t i = 0; i < SCAN && end - first == SCAN; i++) has_some |= keys[first + i] <= limit;
        for (int64_t i = first; i < end && has_some; i++) {
            const int is_equal = (keys[i] == limit) & (equal < wanted);
            entries[held] = NAME(entry)(keys[i], i);
            held += (keys[i] < limit) | is_equal, equal += is_equal;
        }
    }
    return NAME(sort)(entries, other, held);
}

#undef ENTRY
#undef KEY
#undef PLACE_BITS
#undef NAME
