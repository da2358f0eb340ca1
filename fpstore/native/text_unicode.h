/* The pinned facts of Unicode, and what is done with them one code point at a time: UTF-8, NFKC (UAX #15), case
   folding.

   text_load() fills the tables once, at import, from the columns of fpstore/text/unicode.py, which stay where they
   are for as long as the process lives. A text is cut before every code point that cannot join the one before it:
   NFKC of the pieces, one after another, is NFKC of the text. Nearly every piece is one code point, and most of these
   stay what they are. */
#ifndef FPSTORE_TEXT_UNICODE_H
#define FPSTORE_TEXT_UNICODE_H

#include "platform.h"

#define CODE_POINTS 0x110000
#define MAPPED_POINTS 0x30000 /* nothing from here on changes, combines or is composed */
#define REPLACEMENT 0xFFFD
#define MAX_DECOMPOSED 18 /* U+FDFA */

/* Of each code point. Which of JOINS and the two after it count depends on the normalisation. */
enum {
    IS_WORD = 1,
    IS_SPACE = 2, /* or a control character */
    JOINS = 4,    /* may be composed with what is before it, or reordered */
    NFKC_CHANGES = 8,
    FOLD_CHANGES = 16,
    IS_MARK = 32,  /* belongs to what is before it */
    IS_DENSE = 64, /* a letter of a script that does not part words */
    IS_SIGN = 128  /* visible, and none of these: what words have between them, but white space */
};

typedef struct {
    uint16_t index[MAPPED_POINTS]; /* 1 + the place among those that change; 0 for the others */
    const uint32_t *starts;        /* of each in points; one more at the end */
    const uint32_t *points;
} Mapping;

extern HIDDEN uint8_t unicode_flags[CODE_POINTS];
extern HIDDEN Mapping unicode_folded; /* what case folding makes of a code point */

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

/* How many bytes utf8_write has for a code point. */
ALWAYS_INLINE unsigned utf8_size(uint32_t point) { return 1 + (point >= 0x80) + (point >= 0x800) + (point >= 0x10000); }

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

/* What a code point becomes, as count code points; NULL if it stays. */
ALWAYS_INLINE const uint32_t *mapped(const Mapping *mapping, uint32_t point, unsigned *count) {
    const unsigned index = point < MAPPED_POINTS ? mapping->index[point] : 0;
    if (index == 0) return NULL;
    *count = mapping->starts[index] - mapping->starts[index - 1];
    return mapping->points + mapping->starts[index - 1];
}

/* NFKD of one code point, before reordering: at most MAX_DECOMPOSED; how many. */
unsigned decompose(uint32_t point, uint32_t *out);

/* Put decomposed code points into their canonical order. */
Status reorder(uint32_t *points, size_t count);

/* Compose what reorder left, in its place; how many there are then. */
size_t compose_all(uint32_t *points, size_t count);

#define FEW_COMBINING 32 /* so many are left to insertion */

/* A column of fpstore/text/unicode.py. */
typedef struct {
    const uint32_t *items;
    size_t count;
} UnicodeColumn;

/* Ranges are pairs of the first and the last. Of what is mapped: codes, where each one's points start (one more at the
   end), and the points. */
typedef struct {
    UnicodeColumn word_ranges, space_ranges, mark_ranges, dense_ranges;
    UnicodeColumn combining_ranges, combining_classes;
    UnicodeColumn decomposed_codes, decomposed_starts, decomposed_points;
    UnicodeColumn folded_codes, folded_starts, folded_points;
    UnicodeColumn composed_firsts, composed_seconds, composed_points;
} UnicodeColumns;

/* For text_load() of text_tokens.h, which does the rest. */
void unicode_load(const UnicodeColumns *columns);

#endif
