/* Two texts walked along together. */
#include "passages.h"

#include <string.h>

#define NOWHERE UINT64_MAX
#define AT_ONCE 64
/* Where two texts have become different, so far ahead of both it is looked for where they are the same again. */
#define SOUGHT_BYTES 128
#define SAME_BYTES 16
#define MOST_SPACES 32 /* of each text there */
#define MOST_STEPS 32  /* so often, as what strangers write may be alike anywhere */

/* How many bytes both begin with. */
static uint64_t same_at_start(const uint8_t *one, const uint8_t *other, uint64_t size) {
    uint64_t i = 0;
    for (; i + AT_ONCE <= size; i += AT_ONCE) { /* as vectors */
        uint64_t words[AT_ONCE / 8], others[AT_ONCE / 8], apart = 0;
        memcpy(words, one + i, AT_ONCE);
        memcpy(others, other + i, AT_ONCE);
        for (unsigned j = 0; j < AT_ONCE / 8; j++) apart |= words[j] ^ others[j];
        if (apart) break;
    }
    while (i < size && one[i] == other[i]) i++;
    return i;
}

/* How many bytes both end with. */
static uint64_t same_at_end(const uint8_t *one_end, const uint8_t *other_end, uint64_t size) {
    uint64_t i = 0;
    for (uint64_t word, other; i + 8 <= size; i += 8) {
        memcpy(&word, one_end - i - 8, 8);
        memcpy(&other, other_end - i - 8, 8);
        if (word != other) break;
    }
    while (i < size && one_end[-(int64_t)i - 1] == other_end[-(int64_t)i - 1]) i++;
    return i;
}

ALWAYS_INLINE int is_letter(uint8_t byte) {
    const uint8_t letter = byte | 0x20;
    return (letter >= 'a' && letter <= 'z') || (byte >= '0' && byte <= '9');
}

/* Whether a token begins behind the byte at `at`, which is a space: it then is none of the one before. */
ALWAYS_INLINE int is_start(const uint8_t *text, uint64_t at) { return text[at] == ' ' && is_letter(text[at + 1]); }

/* The space before start number `tokens` from first on; NOWHERE where fewer are before end. */
static uint64_t start_after(const uint8_t *text, uint64_t first, uint64_t end, uint64_t tokens) {
    for (uint64_t i = first; i + 1 < end; i++)
        if (is_start(text, i) && --tokens == 0) return i;
    return NOWHERE;
}

/* The same from behind. */
static uint64_t start_before(const uint8_t *text, uint64_t first, uint64_t end, uint64_t tokens) {
    for (uint64_t i = end; i >= first + 2; i--)
        if (is_start(text, i - 2) && --tokens == 0) return i - 2;
    return NOWHERE;
}

/* The next places, after *a and *b, at which both texts have a space and go on alike; 0 where there is none near. */
static int same_again(const uint8_t *text, uint64_t size, const uint8_t *other, uint64_t other_size, uint64_t *a,
                      uint64_t *b) {
    uint8_t spaces[MOST_SPACES], count = 0, seen = 0;
    uint64_t best = NOWHERE;
    for (uint64_t i = 0; i < SOUGHT_BYTES && i + SAME_BYTES <= other_size && count < MOST_SPACES; i++)
        if (other[i] == ' ') spaces[count++] = (uint8_t)i;
    for (uint64_t i = 0; i < SOUGHT_BYTES && i + SAME_BYTES <= size && i < best && seen < MOST_SPACES; i++) {
        if (text[i] != ' ') continue;
        seen++;
        for (uint8_t j = 0; j < count && i + spaces[j] < best; j++) {
            if (memcmp(text + i, other + spaces[j], SAME_BYTES) != 0) continue;
            best = i + spaces[j];
            *a = i;
            *b = spaces[j];
        }
    }
    return best != NOWHERE;
}

/* Whether there are so many tokens from first to end for sure; one may begin with the text. */
static int has_tokens(const uint8_t *text, uint64_t first, uint64_t end, uint64_t tokens) {
    if (first == 0 && end > 0 && is_letter(text[0])) tokens--;
    return start_after(text, first, end, tokens) != NOWHERE;
}

/* Where both are the same again, after *a and *b of them: near, else where both end alike, else at their ends. */
static void go_on(const uint8_t *text, uint64_t size, const uint8_t *other, uint64_t other_size, uint64_t *a,
                  uint64_t *b) {
    if (same_again(text, size, other, other_size, a, b)) return;
    const uint64_t same = same_at_end(text + size, other + other_size, size < other_size ? size : other_size);
    *a = size - same;
    *b = other_size - same;
}

int64_t passages_apart(const uint8_t *text, uint64_t size, const uint8_t *other, uint64_t other_size, uint64_t tokens,
                       Passage passages[MOST_PASSAGES]) {
    const uint64_t least = size < other_size ? size : other_size;
    uint64_t left = least / 4 < MOST_PASSAGE_BYTES ? least / 4 : MOST_PASSAGE_BYTES;
    uint64_t i = same_at_start(text, other, least), j = i, a, b;
    if (i == size && j == other_size) return 0;
    int64_t count = 0;
    uint64_t next = start_before(text, 0, i, tokens);
    if (next == NOWHERE) next = 0; /* with nothing before it */
    Passage own = {.first = next, .other_first = next};
    for (unsigned step = 0; step < MOST_STEPS; step++) {
        go_on(text + i, size - i, other + j, other_size - j, &a, &b);
        i += a;
        j += b;
        /* From there on both are the same up to end, where the passage may end, and the next one begin. */
        const uint64_t rest = size - i < other_size - j ? size - i : other_size - j;
        const uint64_t end = i + same_at_start(text + i, other + j, rest);
        const int are_done = end == size && end - i == other_size - j;
        uint64_t last = start_after(text, i, end, tokens);
        next = are_done ? end : start_before(text, i, end, tokens);
        if (are_done && last == NOWHERE) last = end; /* with nothing behind it */
        if (last != NOWHERE && next != NOWHERE && last <= next) {
            own.end = last;
            own.other_end = last - i + j;
            const uint64_t one = own.end - own.first, two = own.other_end - own.other_first;
            if (one > left || two > left || count == MOST_PASSAGES) return -1;
            left -= one > two ? one : two;
            if (!has_tokens(text, own.first, own.end, tokens) ||
                !has_tokens(other, own.other_first, own.other_end, tokens))
                return -1;
            passages[count++] = own;
            if (are_done) return count;
            own = (Passage){.first = next, .other_first = next - i + j};
        } else if (end - own.first > left) {
            return -1;
        }
        j += end - i;
        i = end;
    }
    return -1;
}
