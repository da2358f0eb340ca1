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

#define BLOCK_BYTES (MAX_BLOCK_BYTES + 16) /* which MAX_BLOCK_KEYS codes need less of */
#define GROUP_BYTES (GROUP_SLOTS * MAX_BLOCK_BITS / 8 + 16)
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
    unsigned key_bits, slot_bits, slot_shift, rice_bits;
    unsigned block_bytes; /* 0, or there are blocks of at most so many bytes, whose first keys are there as they are */
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
    uint64_t *keys_through; /* of blocks: keys of each and of those before it, as many as fences */
    uint64_t fence_count, fence_room;

    uint8_t block_buffer[BLOCK_BYTES];
    uint8_t group_buffer[GROUP_BYTES];
} Encoder;

/* The steps of a kernel that encodes a whole directory group straight into the payload. Their writer holds back less
   than a byte between two codes (fill is 0..7), so that a code of WORD_CODE_BITS always fits the word. */

/* Whether the group that starts at the encoder's slot has all its slots, and all its keys are among these: one lies
 * beyond. */
ALWAYS_INLINE int group_is_whole(const Encoder *encoder, const uint64_t *keys, uint64_t count) {
    const uint64_t slots = (uint64_t)1 << encoder->slot_bits;
    return slots - encoder->slot >= GROUP_SLOTS &&
           keys[count - 1] > slot_end(encoder->slot + GROUP_SLOTS - 1, encoder->slot_shift);
}

/* A writer that goes on where the payload's stands, which itself stays as it is. */
ALWAYS_INLINE BitWriter group_writer(const BitWriter *payload) {
    store64(payload->at, payload->pending);
    return (BitWriter){payload->at + (payload->fill >> 3), payload->pending >> (payload->fill & 56), payload->fill & 7};
}

/* Append a code of at most WORD_CODE_BITS. */
ALWAYS_INLINE void put_code(BitWriter *writer, uint64_t code, unsigned bits) {
    writer->pending |= code << writer->fill;
    store64(writer->at, writer->pending);
    writer->fill += bits;
    writer->at += writer->fill >> 3;
    writer->pending >>= writer->fill & 56;
    writer->fill &= 7;
}

/* The group is in the payload: note where its slots end, counted in bits from its start, and move past it. */
ALWAYS_INLINE void group_done(Encoder *encoder, const BitWriter *writer, const uint16_t *ends, uint64_t bits,
                              const uint64_t *keys, uint64_t taken) {
    uint8_t *line = encoder->directory + encoder->slot / GROUP_SLOTS * LINE_BYTES;
    store64(line, encoder->payload_bits);
    memcpy(line + 8, ends, GROUP_SLOTS * sizeof *ends);
    encoder->payload = *writer;
    encoder->payload_bits += bits;
    encoder->slot += GROUP_SLOTS;
    encoder->slot_keys = 0;
    encoder->key_count += taken;
    encoder->last_key = keys[taken - 1];
}

/* slot_bits is at most key_bits. block_bytes: 0, or MIN_BLOCK_BYTES to MAX_BLOCK_BYTES, and there is neither a
   directory nor ranks. */
void encoder_init(Encoder *encoder, int codec, unsigned key_bits, unsigned slot_bits, unsigned rice_bits,
                  unsigned block_bytes, const uint8_t *code_lengths, const uint16_t *code_words, uint8_t *directory,
                  uint64_t *ranks);
void encoder_free(Encoder *encoder);

/* Push sorted keys, TOO_WIDE where one is not below 2^key_bits; *written = the payload bytes stored at out, which has
   room for count * MAX_CODE_BYTES_PER_KEY + PAYLOAD_SLACK. */
Status encoder_push(Encoder *encoder, const uint64_t *keys, uint64_t count, uint8_t *out, uint64_t *written);

/* Close every slot that is left and store the last bits; out has room for PAYLOAD_SLACK. */
Status encoder_finish(Encoder *encoder, uint8_t *out, uint64_t *written);

/* What a table's code is chosen from: how often each bit length of a delta occurs. */
typedef struct {
    unsigned slot_shift;
    uint64_t count, last_key, gap_sum;
    uint64_t gap[SYMBOLS], xor_[SYMBOLS];
} Histogram;

/* Count keys for one codec, or for a negative one what any of them needs. */
Status histogram_add(Histogram *histogram, const uint64_t *keys, uint64_t count, int codec);

/* Bits that Rice coding with parameter rice_bits takes for these deltas: *bits is added to. */
void rice_cost(const uint64_t *keys, uint64_t count, uint64_t *last_key, int *started, unsigned slot_shift,
               unsigned rice_bits, uint64_t *bits);

void encode_choose(InstructionSet set);

#define ENCODE_KERNELS(set)                                                           \
    uint64_t push_group_##set(Encoder *, const uint64_t *, uint64_t);                 \
    int count_gaps_##set(const uint64_t *, uint64_t, uint64_t, unsigned, uint64_t *); \
    int count_xors_##set(const uint64_t *, uint64_t, uint64_t, unsigned, uint64_t *);
ENCODE_KERNELS(portable)
ENCODE_KERNELS(fast)
ENCODE_KERNELS(wide)
#undef ENCODE_KERNELS

#endif
