/* The pinned facts of Unicode, and what is done with them one code point at a time: UTF-8, NFKC (UAX #15), case folding.

   unicode_load() fills the tables once, at import, from the columns of fpstore/text/unicode.py, which stay where they
   are for as long as the process lives. A text is cut before every code point that cannot join the one before it:
   NFKC of the pieces, one after another, is NFKC of the text. Nearly every piece is one code point, and most of these
   stay what they are. */
#ifndef FPSTORE_TEXT_UNICODE_H
#define FPSTORE_TEXT_UNICODE_H

#include "platform.h"

#define CODE_POINTS 0x110000
#define MAPPED_POINTS 0x30000 /* nothing from here on changes, combines or is composed */
#define REPLACEMENT 0xFFFD
#define MOST_DECOMPOSED 18 /* U+FDFA */

/* Of each code point. Which of the middle three count depends on the normalisation. */
enum {
    IS_WORD = 1,
    IS_SPACE = 2,    /* or a control character */
    JOINS = 4,       /* may be composed with what is before it, or reordered */
    NFKC_CHANGES = 8,
    FOLD_CHANGES = 16
};

typedef struct {
    uint16_t index[MAPPED_POINTS]; /* 1 + the place among those that change; 0 for the others */
    const uint32_t *starts;        /* of each in points; one more at the end */
    const uint32_t *points;
} Mapping;

#define COMPOSED_SLOTS 4096 /* four times the pairs */

static uint8_t unicode_flags[CODE_POINTS];
static uint8_t combining_class[MAPPED_POINTS];
static Mapping decomposed, folded;
static struct {
    uint64_t pair; /* first << 32 | second; 0 where free */
    uint32_t composed;
} composed_slots[COMPOSED_SLOTS];

/* Hangul, by arithmetic: section 3.12 of the Unicode Standard. */
enum {
    HANGUL_S = 0xAC00, HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11A7,
    HANGUL_LS = 19, HANGUL_VS = 21, HANGUL_TS = 28, HANGUL_SYLLABLES = HANGUL_LS * HANGUL_VS * HANGUL_TS
};

/* The code point at `at`, which is before end, and how many bytes it has. Where the bytes are no UTF-8, U+FFFD for as
   many as bytes.decode("utf-8", "replace") makes one of: the longest beginning of a code point, or one byte. */
ALWAYS_INLINE uint32_t utf8_read(const uint8_t *at, const uint8_t *end, unsigned *size) {
    const uint32_t first = at[0];
    const size_t left = (size_t)(end - at);
    *size = 1;
    if (first < 0x80) return first;
    if (first < 0xC2 || first > 0xF4 || left < 2) return REPLACEMENT;
    if (first < 0xE0) {
        if ((at[1] & 0xC0) != 0x80) return REPLACEMENT;
        *size = 2;
        return (first & 0x1F) << 6 | (at[1] & 0x3Fu);
    }
    const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < low || at[1] > high) return REPLACEMENT;
    *size = 2;
    if (left < 3 || (at[2] & 0xC0) != 0x80) return REPLACEMENT;
    *size = 3;
    if (first < 0xF0) return (first & 0x0F) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
    if (left < 4 || (at[3] & 0xC0) != 0x80) return REPLACEMENT;
    *size = 4;
    return (first & 0x07) << 18 | (at[1] & 0x3Fu) << 12 | (at[2] & 0x3Fu) << 6 | (at[3] & 0x3Fu);
}

/* Write a code point, four bytes at most; how many. */
ALWAYS_INLINE unsigned utf8_write(uint32_t point, uint8_t *out) {
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xC0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3F));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xE0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (point & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (point & 0x3F));
    return 4;
}

ALWAYS_INLINE unsigned class_of(uint32_t point) { return point < MAPPED_POINTS ? combining_class[point] : 0; }

/* What a code point becomes, as count code points; NULL if it stays. */
ALWAYS_INLINE const uint32_t *mapped(const Mapping *mapping, uint32_t point, unsigned *count) {
    const unsigned index = point < MAPPED_POINTS ? mapping->index[point] : 0;
    if (index == 0) return NULL;
    *count = mapping->starts[index] - mapping->starts[index - 1];
    return mapping->points + mapping->starts[index - 1];
}

/* NFKD of one code point, before reordering: at most MOST_DECOMPOSED; how many. */
static unsigned decompose(uint32_t point, uint32_t *out) {
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

ALWAYS_INLINE unsigned composed_slot(uint64_t pair) {
    unsigned slot = (unsigned)((pair * 0x9E3779B97F4A7C15u) >> 52);
    while (composed_slots[slot].pair != 0 && composed_slots[slot].pair != pair) slot = (slot + 1) % COMPOSED_SLOTS;
    return slot;
}

/* What two code points are composed to; 0 if they are not. */
static uint32_t compose(uint32_t first, uint32_t second) {
    const uint32_t l = first - HANGUL_L, v = second - HANGUL_V, s = first - HANGUL_S, t = second - HANGUL_T;
    if (l < HANGUL_LS && v < HANGUL_VS) return HANGUL_S + (l * HANGUL_VS + v) * HANGUL_TS;
    if (s < HANGUL_SYLLABLES && s % HANGUL_TS == 0 && t - 1 < HANGUL_TS - 1) return first + t;
    return composed_slots[composed_slot((uint64_t)first << 32 | second)].composed;
}

#define FEW_COMBINING 32 /* so many are left to insertion */

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
    for (int class = 0; class < 256; class++) starts[class + 1] += starts[class];
    for (size_t i = 0; i < count; i++) sorted[starts[class_of(points[i])]++] = points[i];
    memcpy(points, sorted, count * sizeof *points);
    free(sorted);
    return OK;
}

/* Put decomposed code points into their canonical order. */
static Status reorder(uint32_t *points, size_t count) {
    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last < count && class_of(points[last]) != 0) last++;
        if (last - i > 1 && sort_combining(points + i, last - i) != OK) return NO_MEMORY;
        i = last + 1;
    }
    return OK;
}

/* Compose what reorder left, in its place; how many there are then. */
static size_t compose_all(uint32_t *points, size_t count) {
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

/* NFKC of one code point: at most MOST_DECOMPOSED; how many. */
static unsigned compatible(uint32_t point, uint32_t *out) {
    const unsigned count = decompose(point, out);
    (void)reorder(out, count); /* so few that it asks for no memory */
    return (unsigned)compose_all(out, count);
}

static void set_flag(const uint32_t *ranges, size_t count, uint8_t flag) {
    for (size_t i = 0; i + 1 < count; i += 2)
        for (uint32_t point = ranges[i]; point <= ranges[i + 1]; point++) unicode_flags[point] |= flag;
}

/* starts has one item more than codes. */
static void mapping_load(Mapping *mapping, const uint32_t *codes, size_t count, const uint32_t *starts,
                         const uint32_t *points) {
    for (size_t i = 0; i < count; i++) mapping->index[codes[i]] = (uint16_t)(i + 1);
    mapping->starts = starts;
    mapping->points = points;
}

static void combining_load(const uint32_t *ranges, const uint32_t *classes, size_t count) {
    for (size_t i = 0; i < count; i++)
        for (uint32_t point = ranges[2 * i]; point <= ranges[2 * i + 1]; point++)
            combining_class[point] = (uint8_t)classes[i];
}

static void composed_load(const uint32_t *firsts, const uint32_t *seconds, const uint32_t *composed, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const uint64_t pair = (uint64_t)firsts[i] << 32 | seconds[i];
        const unsigned slot = composed_slot(pair);
        composed_slots[slot].pair = pair;
        composed_slots[slot].composed = composed[i];
    }
}

/* The flags that follow from the rest; call it last. */
static void unicode_finish(const uint32_t *seconds, size_t count) {
    static uint8_t is_second[MAPPED_POINTS];
    for (size_t i = 0; i < count; i++) is_second[seconds[i]] = 1;
    memset(is_second + HANGUL_V, 1, HANGUL_VS);
    memset(is_second + HANGUL_T + 1, 1, HANGUL_TS - 1);
    for (uint32_t point = 0; point < MAPPED_POINTS; point++) {
        uint32_t points[MOST_DECOMPOSED];
        decompose(point, points);
        if (points[0] < MAPPED_POINTS && (is_second[points[0]] || class_of(points[0]) != 0))
            unicode_flags[point] |= JOINS;
        if (compatible(point, points) != 1 || points[0] != point) unicode_flags[point] |= NFKC_CHANGES;
        if (folded.index[point] != 0) unicode_flags[point] |= FOLD_CHANGES;
    }
}

#endif
