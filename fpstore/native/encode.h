/* The encoder: sorted keys in, the bits of a table out (docs/format.md, section 2).

   Keys are pushed in chunks of any size; the encoder holds one block and one directory group at most. */
#ifndef FPSTORE_ENCODE_H
#define FPSTORE_ENCODE_H

#include "layout.h"

typedef struct {
    uint8_t *at;      /* where the next whole word goes; the owner of the buffer sees to the room */
    uint64_t pending; /* bits not yet stored, from bit 0 up */
    unsigned fill;    /* how many: 0..63 */
} BitWriter;

ALWAYS_INLINE void put_bits(BitWriter *writer, uint64_t value, unsigned count) { /* value < 2^count, count <= 64 */
    writer->pending |= value << writer->fill;
    if (writer->fill + count >= 64) {
        store64(writer->at, writer->pending);
        writer->at += 8;
        writer->pending = (value >> 1) >> (63 - writer->fill); /* value >> (64 - fill), also where fill is 0 */
        writer->fill += count - 64;
    } else {
        writer->fill += count;
    }
}

#define BLOCK_BYTES (BLOCK_KEYS * MAX_CODE_BYTES_PER_KEY + 16)
#define GROUP_BYTES (GROUP_SLOTS * BLOCK_BITS / 8 + 16)
/* What one push of n keys can add to the payload, over what earlier pushes left pending. */
#define PAYLOAD_SLACK (GROUP_BYTES + BLOCK_BYTES + 64)

/* A symbol's code, as push_group uses it: a delta moved up by `length` and XORed with mask is its whole code. */
typedef struct {
    uint64_t mask;   /* the code word, and the delta's leading bit where it comes to lie in a word */
    uint32_t length; /* of the code word */
    uint32_t all;    /* of the code */
} GroupCode;

#define WORD_CODE_BITS 56 /* a code of so many bits fits a word behind up to 7 others */

typedef struct {
    int codec;
    unsigned slot_bits, rice_bits;
    uint16_t code_words[SYMBOLS]; /* bit-reversed: written lowest bit first they read from the code's top */
    uint8_t code_lengths[SYMBOLS];
    GroupCode group_codes[SYMBOLS];
    uint16_t wide_codes[64]; /* code words below their lengths, for symbols below 64 */

    uint64_t key_count, last_key;
    uint64_t slot; /* the slot being filled */
    int slot_is_large;
    unsigned block_keys; /* keys of that slot in the open block */
    uint64_t slot_keys;
    BitWriter block;
    uint64_t block_bits;

    unsigned group_slot; /* slot % GROUP_SLOTS */
    uint64_t group_flags;
    uint16_t group_ends[GROUP_SLOTS];
    BitWriter group;
    uint64_t group_bits;

    BitWriter payload;
    uint64_t payload_bits;

    uint8_t *directory; /* directory_lines * 32 bytes, given by the caller */
    uint64_t *ranks;    /* 2^slot_bits + 1, or NULL */
    uint8_t *fences;
    uint64_t fence_count, fence_room;

    uint8_t block_buffer[BLOCK_BYTES];
    uint8_t group_buffer[GROUP_BYTES];
} Encoder;

void encoder_init(Encoder *encoder, int codec, unsigned slot_bits, unsigned rice_bits, const uint8_t *code_lengths,
                  const uint16_t *code_words, uint8_t *directory, uint64_t *ranks);
void encoder_free(Encoder *encoder);

/* Push sorted keys; *written = the payload bytes stored at out, which has room for
   count * MAX_CODE_BYTES_PER_KEY + PAYLOAD_SLACK. */
Status encoder_push(Encoder *encoder, const uint64_t *keys, uint64_t count, uint8_t *out, uint64_t *written);

/* Close every slot that is left and store the last bits; out has room for PAYLOAD_SLACK. */
Status encoder_finish(Encoder *encoder, uint8_t *out, uint64_t *written);

/* What a table's code is chosen from: how often each bit length of a delta occurs. */
typedef struct {
    unsigned slot_bits;
    uint64_t count, last_key, gap_sum;
    uint64_t gap[SYMBOLS], xor_[SYMBOLS];
} Histogram;

/* Count keys for one codec, or for a negative one what any of them needs. */
Status histogram_add(Histogram *histogram, const uint64_t *keys, uint64_t count, int codec);

/* Bits that Rice coding with parameter rice_bits takes for these deltas: *bits is added to. */
void rice_cost(const uint64_t *keys, uint64_t count, uint64_t *last_key, int *started, unsigned slot_bits,
               unsigned rice_bits, uint64_t *bits);

void encode_choose(InstructionSet set);

#define ENCODE_KERNELS(set)                                                               \
    uint64_t push_group_##set(Encoder *, const uint64_t *, uint64_t);                     \
    int count_gaps_##set(const uint64_t *, uint64_t, uint64_t, unsigned, uint64_t *);     \
    int count_xors_##set(const uint64_t *, uint64_t, uint64_t, unsigned, uint64_t *);
ENCODE_KERNELS(portable)
ENCODE_KERNELS(fast)
ENCODE_KERNELS(wide)
#undef ENCODE_KERNELS

#endif
