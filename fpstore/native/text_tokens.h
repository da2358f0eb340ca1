/* From UTF-8 to tokens: normalised, one after another in a buffer that slides along the document.

   Words and separated tokens are each followed by a space, so that a shingle is a slice of the buffer; characters
   follow one another. Memory is bounded by the longest shingle, not by the document. */
#ifndef FPSTORE_TEXT_TOKENS_H
#define FPSTORE_TEXT_TOKENS_H

#include "text_unicode.h"

#define MOST_SHINGLE 64
#define PIECE_BYTES 4096 /* of the document at once: with its tokens and hashes, what a first-level cache holds */
#define SLACK_BYTES 128  /* a kernel may write so much behind what it has to say */
#define SEPARATOR 0x1F

/* WHOLE is no way of making tokens: it lets through everything, for who wants the normalised text. */
typedef enum { WORDS, CHARACTERS, SEPARATED, WHOLE } TokenKind;

typedef struct {
    TokenKind kind;
    uint8_t flags; /* those of JOINS, NFKC_CHANGES and FOLD_CHANGES that the normalisation asks for */
} TokenSteps;

typedef struct {
    uint8_t *bytes;
    size_t byte_room, used;
    uint32_t *starts; /* of the tokens in bytes; one more: of the token being read */
    size_t start_room, count;
    int in_token; /* the last token has begun; of characters: one was read */
    int gap;      /* of characters: white space was read after the last one */
    uint32_t *points; /* room for what is composed together */
    size_t point_room;
} Tokens;

static void tokens_free(Tokens *tokens) {
    free(tokens->bytes);
    free(tokens->starts);
    free(tokens->points);
}

/* Empty the buffer for a document; what it holds is zeros or was used before. */
static void tokens_begin(Tokens *tokens) {
    tokens->used = tokens->count = 0;
    tokens->in_token = tokens->gap = 0;
}

/* Room for so many bytes and tokens more. */
static Status tokens_reserve(Tokens *tokens, size_t bytes, size_t count) {
    bytes += tokens->used + SLACK_BYTES;
    if (bytes > tokens->byte_room) {
        if (bytes > UINT32_MAX / 2) return NO_MEMORY; /* starts has 32 bits */
        uint8_t *larger = realloc(tokens->bytes, 2 * bytes);
        if (larger == NULL) return NO_MEMORY;
        tokens->bytes = larger;
        tokens->byte_room = 2 * bytes;
    }
    count += tokens->count + SLACK_BYTES;
    if (count > tokens->start_room) {
        uint32_t *larger = realloc(tokens->starts, 2 * count * sizeof *larger);
        if (larger == NULL) return NO_MEMORY;
        tokens->starts = larger;
        tokens->start_room = 2 * count;
    }
    return OK;
}

/* Drop all tokens but the last so many. */
static void tokens_slide(Tokens *tokens, size_t kept) {
    const size_t dropped = tokens->count - kept;
    const uint32_t first = tokens->starts[dropped];
    if (first == 0) return;
    memmove(tokens->bytes, tokens->bytes + first, tokens->used - first);
    for (size_t i = 0; i <= kept; i++) tokens->starts[i] = tokens->starts[dropped + i] - first;
    tokens->used -= first;
    tokens->count = kept;
}

ALWAYS_INLINE void end_token(Tokens *tokens) {
    if (!tokens->in_token) return;
    tokens->bytes[tokens->used++] = ' ';
    tokens->starts[++tokens->count] = (uint32_t)tokens->used;
    tokens->in_token = 0;
}

/* Append a code point, which stays what it is; at most five bytes and two tokens. */
ALWAYS_INLINE void put_point(Tokens *tokens, TokenKind kind, uint32_t point) {
    const uint8_t flags = unicode_flags[point];
    if (kind == CHARACTERS) {
        if (flags & IS_SPACE) {
            tokens->gap = tokens->in_token;
            return;
        }
        if (tokens->gap) {
            tokens->bytes[tokens->used++] = ' ';
            tokens->starts[++tokens->count] = (uint32_t)tokens->used;
            tokens->gap = 0;
        }
        tokens->used += utf8_write(point, tokens->bytes + tokens->used);
        tokens->starts[++tokens->count] = (uint32_t)tokens->used;
        tokens->in_token = 1;
    } else if (kind == WHOLE || (kind == WORDS ? flags & IS_WORD : point != SEPARATOR)) {
        tokens->used += utf8_write(point, tokens->bytes + tokens->used);
        tokens->in_token = 1;
    } else {
        end_token(tokens);
    }
}

ALWAYS_INLINE void put_folded(Tokens *tokens, const TokenSteps *steps, uint32_t point) {
    unsigned count;
    const uint32_t *points = steps->flags & FOLD_CHANGES ? mapped(&folded, point, &count) : NULL;
    if (points == NULL) {
        put_point(tokens, steps->kind, point);
        return;
    }
    for (unsigned i = 0; i < count; i++) put_point(tokens, steps->kind, points[i]);
}

/* Whether the code point at `at` may be composed with the one before it. */
ALWAYS_INLINE int joins_at(const TokenSteps *steps, const uint8_t *at, const uint8_t *end) {
    unsigned size;
    return at < end && *at >= 0x80 && (unicode_flags[utf8_read(at, end, &size)] & steps->flags & JOINS);
}

static Status points_reserve(Tokens *tokens, size_t count) {
    if (count <= tokens->point_room) return OK;
    uint32_t *larger = realloc(tokens->points, 2 * count * sizeof *larger);
    if (larger == NULL) return NO_MEMORY;
    tokens->points = larger;
    tokens->point_room = 2 * count;
    return OK;
}

/* Normalise the code point at *at and all that join it; leaves *at behind them, and room for what is left to stop. */
static Status put_composed(Tokens *tokens, const TokenSteps *steps, const uint8_t **at, const uint8_t *stop,
                           const uint8_t *end) {
    const uint8_t *next = *at;
    size_t count = 0;
    unsigned size;
    do {
        if (points_reserve(tokens, count + MOST_DECOMPOSED) != OK) return NO_MEMORY;
        count += decompose(utf8_read(next, end, &size), tokens->points + count);
        next += size;
    } while (joins_at(steps, next, end));
    if (reorder(tokens->points, count) != OK) return NO_MEMORY;
    count = compose_all(tokens->points, count);
    const size_t further = stop > next ? (size_t)(stop - next) : 0;
    for (size_t i = 0; i < count; i++) {
        /* Folding makes three code points of one at most. */
        if (i % FEW_COMBINING == 0 &&
            tokens_reserve(tokens, 3 * (5 * FEW_COMBINING + further), 2 * (3 * FEW_COMBINING + further)) != OK)
            return NO_MEMORY;
        put_folded(tokens, steps, tokens->points[i]);
    }
    *at = next;
    return OK;
}

/* Whether a byte begins one of U+1000..U+CFFF, where every three bytes of the right form are a code point. */
ALWAYS_INLINE int is_plain_lead(uint8_t byte) { return byte >= 0xE1 && byte <= 0xEC; }

/* Read on from *at, which is not ASCII or is joined by what follows it, to the next ASCII or to stop, or a bit over; or
   to what put_plain may read. */
static Status put_others(Tokens *tokens, const TokenSteps *steps, const uint8_t **at, const uint8_t *stop,
                         const uint8_t *end) {
    do {
        unsigned size;
        const uint32_t point = utf8_read(*at, end, &size);
        if ((unicode_flags[point] & steps->flags & (JOINS | NFKC_CHANGES)) || joins_at(steps, *at + size, end)) {
            if (put_composed(tokens, steps, at, stop, end) != OK) return NO_MEMORY;
        } else {
            put_folded(tokens, steps, point);
            *at += size;
        }
    } while (*at < stop && **at >= 0x80 && !(steps->kind != CHARACTERS && is_plain_lead(**at)));
    return OK;
}

/* What a byte of ASCII becomes: itself or its lower case; BETWEEN where it belongs to no token. */
#define BETWEEN 0x80
static uint8_t ascii_becomes[WHOLE + 1][2][128];

static void ascii_load(void) { /* after the facts of Unicode */
    for (int kind = 0; kind <= WHOLE; kind++)
        for (int fold = 0; fold < 2; fold++)
            for (int byte = 0; byte < 128; byte++) {
                const uint8_t flags = unicode_flags[byte];
                const int between = kind == WORDS        ? !(flags & IS_WORD)
                                    : kind == CHARACTERS ? flags & IS_SPACE
                                                         : kind == SEPARATED && byte == SEPARATOR;
                const int upper = byte >= 'A' && byte <= 'Z';
                ascii_becomes[kind][fold][byte] = (uint8_t)(between ? BETWEEN : upper && fold ? byte | 0x20 : byte);
            }
}

/* Whether a byte begins one of U+4000..U+9FFF. */
ALWAYS_INLINE int is_han_lead(uint8_t byte) { return byte >= 0xE4 && byte <= 0xE9; }

/* Append words or separated tokens of ASCII and U+1000..U+CFFF, as long as each code point stays what it is: Chinese, the
   most of it, where a token has few letters. Returns where that ends, or what others read faster begins: a long run of
   ASCII, or after so many Chinese characters the next; nothing before it is joined by what is there. */
static const uint8_t *put_plain(Tokens *tokens, const TokenSteps *steps, unsigned letters, const uint8_t *at,
                                const uint8_t *stop, const uint8_t *end) {
    const uint8_t *becomes = ascii_becomes[steps->kind][(steps->flags & FOLD_CHANGES) != 0], *before = at;
    const uint8_t belongs = steps->kind == WORDS ? IS_WORD : 0xFF, changes = steps->flags;
    uint8_t *out = tokens->bytes + tokens->used, *out_before = out;
    uint32_t *next = tokens->starts + tokens->count + 1, *next_before = next;
    unsigned open = (unsigned)tokens->in_token, open_before = open;
    if (end - at < 8) return at;
    if (end - stop < 8) stop = end - 8;
    while (at < stop) {
        unsigned size, ends;
        uint8_t *const here = out;
        if (*at < 0x80) {
            if ((load64(at) & 0x8080808080808080u) == 0) break;
            const uint8_t byte = becomes[*at];
            size = 1;
            ends = byte == BETWEEN;
            *out = ends ? ' ' : byte;
        } else {
            if (is_han_lead(*at) && letters-- == 0) break;
            if (!is_plain_lead(*at) || (at[1] & 0xC0) != 0x80 || (at[2] & 0xC0) != 0x80) break;
            const uint32_t point = (at[0] & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
            const uint8_t flags = unicode_flags[point];
            if (flags & changes) break;
            size = 3;
            ends = (flags & belongs) == 0 && belongs != 0xFF;
            memcpy(out, at, 4);
            if (ends) *out = ' ';
        }
        before = at;
        out_before = here;
        next_before = next;
        open_before = open;
        at += size;
        out += ends ? open : size;
        *next = (uint32_t)(out - tokens->bytes);
        next += open & ends;
        open = !ends;
    }
    if (joins_at(steps, at, end)) {
        at = before;
        out = out_before;
        next = next_before;
        open = open_before;
    }
    tokens->used = (size_t)(out - tokens->bytes);
    tokens->count = (size_t)(next - tokens->starts) - 1;
    tokens->in_token = (int)open;
    return at;
}

/* Of 64 bytes: which are not ASCII, which lead U+4000..U+9FFF, of these which U+4000..U+4FFF, which continue a code
   point, and which of these are too low to make U+4E00 or more of it. */
typedef struct {
    uint64_t others, leads, low_leads, continues, low;
} HanMasks;

/* How many of the first size bytes are ASCII and whole code points of U+4E00..U+9FFF, the Chinese characters, before
   anything else: all of these are letters that stay what they are, and join nothing. */
ALWAYS_INLINE unsigned han_size(const HanMasks *masks, unsigned size) {
    const uint64_t follow = masks->leads << 1 | masks->leads << 2;
    const uint64_t wrong = (masks->others & ~masks->leads & ~follow) | (follow & ~masks->continues) |
                           (masks->low_leads << 1 & masks->low);
    if ((wrong & low_bits(size)) != 0) size = (unsigned)__builtin_ctzll(wrong);
    if (size == 0) return 0;
    const uint64_t last = masks->leads << (64 - size);
    return size - (last >> 63 ? 1 : last >> 62 ? 2 : 0);
}

#define KERNEL(name) name##_portable
#include "text_tokens_body.h"
#undef KERNEL

#if FPSTORE_X86
FAST_BEGIN
#define KERNEL(name) name##_fast
#define KERNEL_IS_FAST
#include "text_tokens_body.h"
#undef KERNEL
FAST_END
WIDE_BEGIN
#define KERNEL(name) name##_wide
#define KERNEL_IS_WIDE
#include "text_tokens_body.h"
#undef KERNEL_IS_WIDE
#undef KERNEL_IS_FAST
#undef KERNEL
WIDE_END
#endif

#endif
