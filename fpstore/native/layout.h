/* The numbers of docs/format.md that the kernels need. fpstore/format.py holds the same ones for Python, and
   _codec.pyx exports these so that a test compares the two. */
#ifndef FPSTORE_LAYOUT_H
#define FPSTORE_LAYOUT_H

#include "platform.h"

enum { CODEC_GAP = 0, CODEC_XOR = 1, CODEC_RICE = 2, CODEC_RAW = 3 };

enum { IDS_NONE = 0, IDS_ONE = 1, IDS_MANY = 2 };

#define SYMBOLS 65       /* a delta's bit length: 0..64 */
#define MAX_CODE_BITS 12 /* longest code word: one look-up in 2^12 entries decodes a symbol */
#define RICE_ESCAPE 24   /* a quotient this large is written out in full */
#define GROUP_SLOTS 12   /* slots of one directory line: 8 + 12 * 2 = 32 bytes, half a cache line */
#define LINE_BYTES 32
#define FENCE_BYTES 16
#define OFFSET_BITS 48
#define MAX_BLOCK_KEYS 128  /* keys of a block at most */
#define MAX_BLOCK_BITS 5461 /* bits of an inline block at most: 12 of them fit a 16-bit end */
#define MIN_BLOCK_BYTES 64  /* of a block of a table of blocks: what a store may be told to have at most */
#define MAX_BLOCK_BYTES 4096
#define PAGE_BYTES 4096
#define CRC_BYTES 4     /* of the checksum of a page */
#define FOOTER_BYTES 64 /* so many bytes of a file, or more, come after what a table or a checksum reads */
#define MIN_KEY_BITS 16 /* of a fingerprint, and so of a key */
#define MAX_KEY_BITS 64
#define MAX_SLOT_BITS 40
#define MAX_RICE_BITS 63
#define SAMPLE_BITS 512 /* of groups, to a sample of how many fingerprints come before */
#define SAMPLE_BYTES 8
#define MAX_CODE_BYTES_PER_KEY 11 /* rice: 24 + 64 bits is the longest code of a key */

/* Keys have key_bits bits, at the low end of a word; their top slot_bits bits name their slot. So a slot's number is
   the key shifted down by slot_shift = key_bits - slot_bits, 0..64. */
ALWAYS_INLINE uint64_t slot_of(uint64_t key, unsigned slot_shift) { return slot_shift < 64 ? key >> slot_shift : 0; }

ALWAYS_INLINE uint64_t slot_start(uint64_t slot, unsigned slot_shift) {
    return slot_shift < 64 ? slot << slot_shift : 0;
}

ALWAYS_INLINE uint64_t slot_end(uint64_t slot, unsigned slot_shift) { /* the largest key of the slot */
    return slot_start(slot, slot_shift) | low_bits(slot_shift);
}

#endif
