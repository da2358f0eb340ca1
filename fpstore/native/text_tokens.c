/* The code points that are not simple, one at a time; Chinese and other letters of three bytes, many. */
#include "text_tokens.h"

uint8_t ascii_becomes[WHOLE + 1][2][128];

void tokens_free(Tokens *tokens) {
    free(tokens->bytes);
    free(tokens->starts);
    free(tokens->points);
}

Status tokens_reserve(Tokens *tokens, size_t bytes, size_t count) {
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

void tokens_slide(Tokens *tokens, size_t kept) {
    const size_t dropped = tokens->count - kept;
    const uint32_t first = tokens->starts[dropped];
    if (first == 0) return;
    memmove(tokens->bytes, tokens->bytes + first, tokens->used - first);
    for (size_t i = 0; i <= kept; i++) tokens->starts[i] = tokens->starts[dropped + i] - first;
    tokens->used -= first;
    tokens->count = kept;
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
    } else if (kind == MIXED) {
        if (flags & IS_MARK) {
            if (tokens->in_token) tokens->used += utf8_write(point, tokens->bytes + tokens->used);
        } else {
            if (!(flags & IS_WORD) || (flags & IS_DENSE) || tokens->in_token == IN_DENSE) end_token(tokens);
            if (!(flags & IS_WORD)) {
                if (flags & IS_SIGN) tokens->signs += utf8_size(point);
                return;
            }
            tokens->used += utf8_write(point, tokens->bytes + tokens->used);
            tokens->in_token = flags & IS_DENSE ? IN_DENSE : 1;
        }
    } else if (kind == WHOLE || (kind == WORDS ? flags & IS_WORD : point != SEPARATOR)) {
        tokens->used += utf8_write(point, tokens->bytes + tokens->used);
        tokens->in_token = 1;
    } else {
        if (kind == WORDS && (flags & IS_SIGN)) tokens->signs += utf8_size(point);
        end_token(tokens);
    }
}

ALWAYS_INLINE void put_folded(Tokens *tokens, const TokenSteps *steps, uint32_t point) {
    unsigned count;
    const uint32_t *points = steps->flags & FOLD_CHANGES ? mapped(&unicode_folded, point, &count) : NULL;
    if (points == NULL) {
        put_point(tokens, steps->kind, point);
        return;
    }
    for (unsigned i = 0; i < count; i++) put_point(tokens, steps->kind, points[i]);
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
        if (points_reserve(tokens, count + MAX_DECOMPOSED) != OK) return NO_MEMORY;
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

/* The code point of three bytes that begins at `at`. */
ALWAYS_INLINE uint32_t three_bytes(const uint8_t *at) {
    return (at[0] & 0x0Fu) << 12 | (at[1] & 0x3Fu) << 6 | (at[2] & 0x3Fu);
}

/* Whether a byte begins one of U+1000..U+CFFF, where every three bytes of the right form are a code point. */
ALWAYS_INLINE int is_plain_lead(uint8_t byte) { return byte >= 0xE1 && byte <= 0xEC; }

Status put_others(Tokens *tokens, const TokenSteps *steps, const uint8_t **at, const uint8_t *stop,
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
    } while (*at < stop && **at >= 0x80 &&
             !(steps->kind != CHARACTERS && (is_plain_lead(**at) || (steps->kind == MIXED && **at == 0xE0))));
    return OK;
}

const uint8_t *put_plain(Tokens *tokens, const TokenSteps *steps, unsigned letters, const uint8_t *at,
                         const uint8_t *stop, const uint8_t *end) {
    const uint8_t *becomes = ascii_becomes[steps->kind][(steps->flags & FOLD_CHANGES) != 0], *before = at;
    const uint8_t belongs = steps->kind == WORDS ? IS_WORD : 0xFF, changes = steps->flags;
    uint8_t *out = tokens->bytes + tokens->used, *out_before = out;
    uint32_t *next = tokens->starts + tokens->count + 1, *next_before = next;
    unsigned open = (unsigned)tokens->in_token, open_before = open;
    unsigned signs = 0, wide_signs = 0; /* of one byte, and of three */
    if (end - at < 8) return at;
    if (end - stop < 8) stop = end - 8;
    while (at < stop) {
        unsigned size, ends;
        uint8_t *const here = out;
        if (*at < 0x80) {
            if ((load64(at) & 0x8080808080808080u) == 0) break;
            const uint8_t byte = becomes[*at];
            size = 1;
            ends = byte >> 7;
            signs += byte & ends;
            *out = ends ? ' ' : byte;
        } else {
            if (is_han_lead(*at) && letters-- == 0) break;
            if (!is_plain_lead(*at) || (at[1] & 0xC0) != 0x80 || (at[2] & 0xC0) != 0x80) break;
            const uint32_t point = three_bytes(at);
            const uint8_t flags = unicode_flags[point];
            if (flags & changes) break;
            size = 3;
            ends = (flags & belongs) == 0 && belongs != 0xFF;
            wide_signs += flags / IS_SIGN;
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
    if (at > before && joins_at(steps, at, end)) { /* what was read last is read again, and counted then */
        at = before;
        out = out_before;
        next = next_before;
        open = open_before;
        if (*at < 0x80)
            signs -= becomes[*at] == SIGN;
        else
            wide_signs -= unicode_flags[three_bytes(at)] / IS_SIGN;
    }
    if (steps->kind == WORDS) tokens->signs += signs + 3 * wide_signs;
    tokens->used = (size_t)(out - tokens->bytes);
    tokens->count = (size_t)(next - tokens->starts) - 1;
    tokens->in_token = (int)open;
    return at;
}

const uint8_t *put_mixed(Tokens *tokens, const TokenSteps *steps, const uint8_t *at, const uint8_t *stop,
                         const uint8_t *end) {
    const uint8_t changes = steps->flags, *before = at;
    size_t used_before = tokens->used, count_before = tokens->count;
    int in_before = tokens->in_token;
    if (end - at < 4) return at;
    if (end - stop < 4) stop = end - 4;
    while (at < stop) {
        const int is_low = *at == 0xE0;
        if (!(is_low || is_plain_lead(*at)) || (at[1] & 0xC0) != 0x80 || (at[2] & 0xC0) != 0x80) break;
        const uint32_t point = three_bytes(at);
        if ((is_low && point < 0x800) || (unicode_flags[point] & changes)) break;
        before = at;
        used_before = tokens->used;
        count_before = tokens->count;
        in_before = tokens->in_token;
        put_point(tokens, MIXED, point);
        at += 3;
    }
    if (joins_at(steps, at, end) && at > before) {
        at = before;
        tokens->used = used_before;
        tokens->count = count_before;
        if (unicode_flags[three_bytes(at)] & IS_SIGN) tokens->signs -= 3;
        tokens->in_token = in_before;
    }
    return at;
}

static void load_ascii(void) { /* after the facts of Unicode */
    for (int kind = 0; kind <= WHOLE; kind++)
        for (int fold = 0; fold < 2; fold++)
            for (int byte = 0; byte < 128; byte++) {
                const uint8_t flags = unicode_flags[byte];
                const int between = kind == WORDS || kind == MIXED ? !(flags & IS_WORD)
                                    : kind == CHARACTERS           ? flags & IS_SPACE
                                                                   : kind == SEPARATED && byte == SEPARATOR;
                const int sign = (kind == WORDS || kind == MIXED) && (flags & IS_SIGN);
                const int upper = byte >= 'A' && byte <= 'Z';
                const int kept = upper && fold ? byte | 0x20 : byte;
                ascii_becomes[kind][fold][byte] = (uint8_t)(sign ? SIGN : between ? BETWEEN : kept);
            }
}

void text_load(const UnicodeColumns *columns) {
    unicode_load(columns);
    load_ascii();
}
