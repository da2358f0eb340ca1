/* The tables, and NFKC by them. */
#include "text_unicode.h"

#define COMPOSED_CELLS 4096 /* four times the pairs */

uint8_t unicode_flags[CODE_POINTS];
static uint8_t combining_class[MAPPED_POINTS];
static Mapping decomposed;
Mapping unicode_folded;
static struct {
    uint64_t pair; /* first << 32 | second; 0 where free */
    uint32_t composed;
} composed_cells[COMPOSED_CELLS];

/* Hangul, by arithmetic: section 3.12 of the Unicode Standard. */
enum {
    HANGUL_S = 0xAC00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11A7,
    HANGUL_LS = 19,
    HANGUL_VS = 21,
    HANGUL_TS = 28,
    HANGUL_SYLLABLES = HANGUL_LS * HANGUL_VS * HANGUL_TS
};

ALWAYS_INLINE unsigned class_of(uint32_t point) { return point < MAPPED_POINTS ? combining_class[point] : 0; }

unsigned decompose(uint32_t point, uint32_t *out) {
    const uint32_t syllable = point - HANGUL_S;
    unsigned count;
    if (syllable < HANGUL_SYLLABLES) {
        out[0] = HANGUL_L + syllable / (HANGUL_VS * HANGUL_TS);
        out[1] = HANGUL_V + syllable / HANGUL_TS % HANGUL_VS;
        out[2] = HANGUL_T + syllable % HANGUL_TS;
        return out[2] == HANGUL_T ? 2 : 3;
    }
    const uint32_t *points = mapped(&decomposed, point, &count);
    if (points == NULL) {
        out[0] = point;
        return 1;
    }
    memcpy(out, points, count * sizeof *out);
    return count;
}

ALWAYS_INLINE unsigned composed_cell(uint64_t pair) {
    unsigned cell = (unsigned)((pair * 0x9E3779B97F4A7C15u) >> 52);
    while (composed_cells[cell].pair != 0 && composed_cells[cell].pair != pair) cell = (cell + 1) % COMPOSED_CELLS;
    return cell;
}

/* What two code points are composed to; 0 if they are not. */
static uint32_t compose(uint32_t first, uint32_t second) {
    const uint32_t l = first - HANGUL_L, v = second - HANGUL_V, s = first - HANGUL_S, t = second - HANGUL_T;
    if (l < HANGUL_LS && v < HANGUL_VS) return HANGUL_S + (l * HANGUL_VS + v) * HANGUL_TS;
    if (s < HANGUL_SYLLABLES && s % HANGUL_TS == 0 && t - 1 < HANGUL_TS - 1) return first + t;
    return composed_cells[composed_cell((uint64_t)first << 32 | second)].composed;
}

/* Put code points that all have a combining class into its order, keeping that of equals. */
static Status sort_combining(uint32_t *points, size_t count) {
    if (count <= FEW_COMBINING) {
        for (size_t i = 1; i < count; i++) {
            const uint32_t point = points[i];
            size_t at = i;
            for (; at > 0 && class_of(points[at - 1]) > class_of(point); at--) points[at] = points[at - 1];
            points[at] = point;
        }
        return OK;
    }
    uint32_t *sorted = malloc(count * sizeof *sorted);
    if (sorted == NULL) return NO_MEMORY;
    size_t starts[257] = {0};
    for (size_t i = 0; i < count; i++) starts[class_of(points[i]) + 1]++;
    for (int class = 0; class < 256; class ++) starts[class + 1] += starts[class];
    for (size_t i = 0; i < count; i++) sorted[starts[class_of(points[i])]++] = points[i];
    memcpy(points, sorted, count * sizeof *points);
    free(sorted);
    return OK;
}

Status reorder(uint32_t *points, size_t count) {
    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last < count && class_of(points[last]) != 0) last++;
        if (last - i > 1 && sort_combining(points + i, last - i) != OK) return NO_MEMORY;
        i = last + 1;
    }
    return OK;
}

size_t compose_all(uint32_t *points, size_t count) {
    size_t out = 0, starter = count; /* none yet */
    unsigned before = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t point = points[i];
        const unsigned class = class_of(point);
        /* Blocked if anything between has the same class or is a starter itself. */
        if (starter < out && (starter + 1 == out || before < class)) {
            const uint32_t both = compose(points[starter], point);
            if (both != 0) {
                points[starter] = both;
                continue;
            }
        }
        if (class == 0) starter = out;
        before = class;
        points[out++] = point;
    }
    return out;
}

/* NFKC of one code point: at most MAX_DECOMPOSED; how many. */
static unsigned compatible(uint32_t point, uint32_t *out) {
    const unsigned count = decompose(point, out);
    (void)reorder(out, count); /* so few that it asks for no memory */
    return (unsigned)compose_all(out, count);
}

static void set_flag(const UnicodeColumn *ranges, uint8_t flag) {
    for (size_t i = 0; i + 1 < ranges->count; i += 2)
        for (uint32_t point = ranges->items[i]; point <= ranges->items[i + 1]; point++) unicode_flags[point] |= flag;
}

static void load_mapping(Mapping *mapping, const UnicodeColumn *codes, const UnicodeColumn *starts,
                         const UnicodeColumn *points) {
    for (size_t i = 0; i < codes->count; i++) mapping->index[codes->items[i]] = (uint16_t)(i + 1);
    mapping->starts = starts->items;
    mapping->points = points->items;
}

static void load_combining(const UnicodeColumn *ranges, const UnicodeColumn *classes) {
    for (size_t i = 0; i < classes->count; i++)
        for (uint32_t point = ranges->items[2 * i]; point <= ranges->items[2 * i + 1]; point++)
            combining_class[point] = (uint8_t)classes->items[i];
}

static void load_composed(const UnicodeColumn *firsts, const UnicodeColumn *seconds, const UnicodeColumn *points) {
    for (size_t i = 0; i < points->count; i++) {
        const uint64_t pair = (uint64_t)firsts->items[i] << 32 | seconds->items[i];
        const unsigned cell = composed_cell(pair);
        composed_cells[cell].pair = pair;
        composed_cells[cell].composed = points->items[i];
    }
}

/* The flags that follow from all else. */
static void derive_flags(const UnicodeColumn *seconds) {
    static uint8_t is_second[MAPPED_POINTS];
    for (size_t i = 0; i < seconds->count; i++) is_second[seconds->items[i]] = 1;
    memset(is_second + HANGUL_V, 1, HANGUL_VS);
    memset(is_second + HANGUL_T + 1, 1, HANGUL_TS - 1);
    for (uint32_t point = 0; point < MAPPED_POINTS; point++) {
        uint32_t points[MAX_DECOMPOSED];
        decompose(point, points);
        if (points[0] < MAPPED_POINTS && (is_second[points[0]] || class_of(points[0]) != 0))
            unicode_flags[point] |= JOINS;
        if (compatible(point, points) != 1 || points[0] != point) unicode_flags[point] |= NFKC_CHANGES;
        if (unicode_folded.index[point] != 0) unicode_flags[point] |= FOLD_CHANGES;
    }
    for (uint32_t point = 0; point < CODE_POINTS; point++)
        if (!(unicode_flags[point] & (IS_WORD | IS_SPACE | IS_MARK))) unicode_flags[point] |= IS_SIGN;
}

void unicode_load(const UnicodeColumns *columns) {
    set_flag(&columns->word_ranges, IS_WORD);
    set_flag(&columns->space_ranges, IS_SPACE);
    set_flag(&columns->mark_ranges, IS_MARK);
    set_flag(&columns->dense_ranges, IS_DENSE);
    load_combining(&columns->combining_ranges, &columns->combining_classes);
    load_mapping(&decomposed, &columns->decomposed_codes, &columns->decomposed_starts, &columns->decomposed_points);
    load_mapping(&unicode_folded, &columns->folded_codes, &columns->folded_starts, &columns->folded_points);
    load_composed(&columns->composed_firsts, &columns->composed_seconds, &columns->composed_points);
    derive_flags(&columns->composed_seconds);
}
