/* From UTF-8 to tokens: normalised, one after another in a buffer that slides along the document.

   Words and separated tokens are each followed by a space, so that a shingle is a slice of the buffer; characters, and
   those among mixed tokens, follow one another. Memory is bounded by the longest shingle, not by the document. */
#ifndef FPSTORE_TEXT_TOKENS_H
#define FPSTORE_TEXT_TOKENS_H

#include "text_unicode.h"

#define MAX_SHINGLE 64
#define PIECE_BYTES 4096 /* of the document at once: with its tokens and hashes, what a first-level cache holds */
#define AHEAD_BYTES \
    4096 /* so far ahead a text, which may lie in memory, is asked for; beyond its end this is harmless */
#define SLACK_BYTES 128 /* a kernel may write so much behind what it has to say */
#define SEPARATOR 0x1F

/* WHOLE is no way of making tokens: it lets through everything, for who wants the normalised text. */
typedef enum { WORDS, CHARACTERS, SEPARATED, MIXED, WHOLE } TokenKind;

typedef struct {
    TokenKind kind;
    uint8_t flags; /* those of JOINS, NFKC_CHANGES and FOLD_CHANGES that the normalisation asks for */
} TokenSteps;

typedef struct {
    uint8_t *bytes;
    size_t byte_room, used;
    uint32_t *starts; /* of the tokens in bytes; one more: of the token being read */
    size_t start_room, count;
    int in_token;  /* the last token has begun, IN_DENSE where no space will follow it; of characters: one was read */
    int gap;       /* of characters: white space was read after the last one */
    int has_dense; /* a token of the document so far has no space behind it; of MIXED */
    uint32_t *points; /* room for what is composed together */
    size_t point_room;
    uint64_t signs; /* bytes of what the document has of visible code points in no token, but marks; of WORDS, MIXED */
} Tokens;

void tokens_free(Tokens *tokens);

/* Empty the buffer for a document; what it holds is zeros or was used before. */
ALWAYS_INLINE void tokens_begin(Tokens *tokens) {
    tokens->used = tokens->count = 0;
    tokens->in_token = tokens->gap = tokens->has_dense = 0;
    tokens->signs = 0;
}

/* Room for so many bytes and tokens more. */
Status tokens_reserve(Tokens *tokens, size_t bytes, size_t count);

/* Drop all tokens but the last so many. */
void tokens_slide(Tokens *tokens, size_t kept);

#define IN_DENSE 2

ALWAYS_INLINE void end_token(Tokens *tokens) {
    if (!tokens->in_token) return;
    if (tokens->in_token == IN_DENSE)
        tokens->has_dense = 1;
    else
        tokens->bytes[tokens->used++] = ' ';
    tokens->starts[++tokens->count] = (uint32_t)tokens->used;
    tokens->in_token = 0;
}

/* Whether the code point at `at` may be composed with the one before it. */
ALWAYS_INLINE int joins_at(const TokenSteps *steps, const uint8_t *at, const uint8_t *end) {
    unsigned size;
    return at < end && *at >= 0x80 && (unicode_flags[utf8_read(at, end, &size)] & steps->flags & JOINS);
}

/* Read on from *at, which is not ASCII or is joined by what follows it, to the next ASCII or to stop, or a bit over; or
   to what put_plain may read. */
Status put_others(Tokens *tokens, const TokenSteps *steps, const uint8_t **at, const uint8_t *stop, const uint8_t *end);

/* What a byte of ASCII becomes: itself or its lower case; BETWEEN where it belongs to no token, or SIGN if it is one of
   Tokens.signs. */
#define BETWEEN 0x80
#define SIGN 0x81
extern HIDDEN uint8_t ascii_becomes[WHOLE + 1][2][128];

/* Whether a byte begins one of U+4000..U+9FFF. */
ALWAYS_INLINE int is_han_lead(uint8_t byte) { return byte >= 0xE4 && byte <= 0xE9; }

/* Append words or separated tokens of ASCII and U+1000..U+CFFF, as long as each code point stays what it is: Chinese,
   the most of it, where a token has few letters. Returns where that ends, or what others read faster begins: a long run
   of ASCII, or after so many Chinese characters the next; nothing before it is joined by what is there. */
const uint8_t *put_plain(Tokens *tokens, const TokenSteps *steps, unsigned letters, const uint8_t *at,
                         const uint8_t *stop, const uint8_t *end);

/* Whether a whole token is a character of a script that does not part words. */
ALWAYS_INLINE int is_dense_token(const Tokens *tokens, size_t token) {
    return tokens->bytes[tokens->starts[token + 1] - 1] != ' ';
}

/* The same of mixed tokens, and of U+0800..U+0FFF too. */
const uint8_t *put_mixed(Tokens *tokens, const TokenSteps *steps, const uint8_t *at, const uint8_t *stop,
                         const uint8_t *end);

/* Of 64 bytes: which are not ASCII, which lead U+4000..U+9FFF, of these which U+4000..U+4FFF, which continue a code
   point, and which of these are too low to make U+4E00 or more of it. */
typedef struct {
    uint64_t others, leads, low_leads, continues, low;
} HanMasks;

/* The place of the first of the marked bytes among the first size, or size. */
ALWAYS_INLINE unsigned first_of(uint64_t marked, unsigned size) {
    const unsigned first = (unsigned)__builtin_ctzll(marked);
    return first < size ? first : size;
}

/* How many of the first size bytes are ASCII and whole code points of U+4E00..U+9FFF, the Chinese characters, before
   anything else: all of these are letters that stay what they are, and join nothing. */
ALWAYS_INLINE unsigned han_size(const HanMasks *masks, unsigned size) {
    const uint64_t follow = masks->leads << 1 | masks->leads << 2;
    const uint64_t wrong =
        (masks->others & ~masks->leads & ~follow) | (follow & ~masks->continues) | (masks->low_leads << 1 & masks->low);
    if ((wrong & low_bits(size)) != 0) size = (unsigned)__builtin_ctzll(wrong);
    if (size == 0) return 0;
    const uint64_t last = masks->leads << (64 - size);
    return size - (last >> 63 ? 1 : last >> 62 ? 2 : 0);
}

/* Fill all tables of the text kernels, once. The columns stay where they are from then on. */
void text_load(const UnicodeColumns *columns);

#endif
