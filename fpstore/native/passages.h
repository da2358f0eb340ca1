/* The passages in which two texts differ, each with as much around it that all other shingles are the same in both. */
#ifndef FPSTORE_PASSAGES_H
#define FPSTORE_PASSAGES_H

#include "platform.h"

#define MOST_PASSAGES 16
#define MOST_PASSAGE_BYTES 4096 /* of all passages of a text */

/* The bytes from first to end of a text, in place of which another has those from other_first to other_end. */
typedef struct {
    uint64_t first, end, other_first, other_end;
} Passage;

/* Fill in the passages, in order; how many they are, or -1 where they would be more, or have more than a fourth of the
   bytes, or one of them may have fewer than `tokens` tokens.

   Texts are UTF-8. What they are cut into are the runs of letters and digits, at least of those of ASCII, and a space of
   ASCII is in none. Shingles are of at most `tokens` tokens in a row, and tokens is at least 2. Then the list of the
   shingles of the other text is that of the first with those of each passage in place of those of the passage there:
   before it and behind it are so many tokens which are the same in both as all shingles have that reach over its ends. */
int64_t passages_apart(const uint8_t *text, uint64_t size, const uint8_t *other, uint64_t other_size, uint64_t tokens,
                       Passage passages[MOST_PASSAGES]);

#endif
