/* Sorted keys as a spill file has them: in groups, each of its first key and of steps from a key to the next, of as many
   bits as the longest of the group takes. Of 4*10^8 random keys a step takes 38 or 39.

   A group: how many keys, less one (a byte); bits of a step, 0 to 56, or 64 (a byte); the first key (8 bytes); then the
   steps, one less than there are keys, the lowest bit first; zeros to the next byte. Nobody but the process that wrote it
   reads it. */
#ifndef FPSTORE_SPILLED_H
#define FPSTORE_SPILLED_H

#include "platform.h"

#define SPILLED_GROUP 128 /* keys at most */
#define SPILLED_HEAD 10   /* bytes */
#define SPILLED_SLACK 8   /* bytes behind what is written or read, which may be written or read, too */

/* Write keys, which never decrease, in groups of so many, 1 to SPILLED_GROUP; how many bytes there are.
   out: spilled_most bytes. */
uint64_t spilled_pack(const uint64_t *keys, uint64_t count, unsigned group, uint8_t *out);

/* How many bytes they are at most, with the slack. */
ALWAYS_INLINE uint64_t spilled_most(uint64_t count, unsigned group) {
    return (count + group - 1) / group * (SPILLED_HEAD + 8 * (uint64_t)(group - 1)) + SPILLED_SLACK;
}

/* Read whole groups as long as they lie in these bytes, behind which is the slack, and fit into the room for keys; how
   many keys, and of how many bytes. It stops before what is no group. */
uint64_t spilled_unpack(const uint8_t *data, uint64_t bytes, uint64_t *keys, uint64_t room, uint64_t *used);

#endif
