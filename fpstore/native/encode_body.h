/* The two loops that every key of a table passes. Included once for each instruction set; see platform.h. */
#include "encode.h"

/* Append the code of a delta. */
ALWAYS_INLINE void KERNEL(put_delta)(BitWriter *writer, uint64_t delta, GroupCode code) {
    if (LIKELY(code.all <= WORD_CODE_BITS)) {
        put_code(writer, delta << code.length ^ code.mask, code.all);
        return;
    }
    unsigned tail = code.all - code.length; /* 32 bits or more */
    delta &= low_bits(tail);
    put_code(writer, code.mask, code.length);
    put_code(writer, delta & low_bits(32), 32);
    put_code(writer, delta >> 32, tail - 32);
}

/* Encode the directory group that starts at keys[0] straight into the payload, if all of its keys are among these and
   no slot of it is large. Returns the number of keys taken; 0, and nothing is changed, where that does not hold: what
   was written lies behind the payload's end. */
ALWAYS_INLINE uint64_t KERNEL(push_group_as)(Encoder *encoder, const uint64_t *keys, uint64_t count, int codec) {
    if (!group_is_whole(encoder, keys, count)) return 0;
    const unsigned slot_shift = encoder->slot_shift;
    const uint64_t first_slot = encoder->slot;
    const GroupCode *codes = encoder->group_codes;
    BitWriter writer = group_writer(&encoder->payload);
    uint64_t bits = 0, taken = 0,
             least = 0; /* the next key is no smaller than `least`; the caller has seen to the first */
    int disorder = 0;
    uint16_t ends[GROUP_SLOTS];
    for (unsigned i = 0; i < GROUP_SLOTS; i++) {
        uint64_t previous = slot_start(first_slot + i, slot_shift), top = slot_end(first_slot + i, slot_shift);
        uint64_t first_bit = bits, first = taken, key;
        for (; (key = keys[taken]) <= top; taken++) { /* some key is beyond the group, so this ends */
            uint64_t delta = codec == CODEC_XOR ? key ^ previous : key - previous;
            GroupCode code = codes[bit_length(delta)];
            disorder |= key < least;
            least = key + 1; /* below the top of the group, which is not the last */
            KERNEL(put_delta)(&writer, delta, code);
            bits += code.all;
            previous = key;
        }
        if (taken - first > MAX_BLOCK_KEYS || bits - first_bit > MAX_BLOCK_BITS) return 0;
        ends[i] = (uint16_t)bits;
        if (encoder->ranks != NULL) encoder->ranks[first_slot + i + 1] = encoder->key_count + taken;
    }
    if (taken == 0 || disorder) return 0; /* the careful path refuses keys out of order */
    group_done(encoder, &writer, ends, bits, keys, taken);
    return taken;
}

uint64_t KERNEL(push_group)(Encoder *encoder, const uint64_t *keys, uint64_t count) {
    return encoder->codec == CODEC_XOR ? KERNEL(push_group_as)(encoder, keys, count, CODEC_XOR)
                                       : KERNEL(push_group_as)(encoder, keys, count, CODEC_GAP);
}

/* Count the bit lengths of the deltas of keys after last; whether all of them are larger than the one before. */
ALWAYS_INLINE int KERNEL(count_deltas)(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift,
                                       int codec, uint64_t *counts) {
    /* Every fourth key counts in its own column: a counter just stored cannot be loaded at once. */
    uint64_t columns[4][SYMBOLS] = {{0}};
    uint64_t in_slot = ~low_bits(slot_shift);
    int increase = 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = keys[i], start = key & in_slot, previous = last > start ? last : start;
        increase &= key > last;
        columns[i & 3][bit_length(codec == CODEC_XOR ? key ^ previous : key - previous)]++;
        last = key;
    }
    for (unsigned symbol = 0; symbol < SYMBOLS; symbol++)
        for (unsigned i = 0; i < 4; i++) counts[symbol] += columns[i][symbol];
    return increase;
}

int KERNEL(count_gaps)(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift, uint64_t *counts) {
    return KERNEL(count_deltas)(keys, count, last, slot_shift, CODEC_GAP, counts);
}

int KERNEL(count_xors)(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift, uint64_t *counts) {
    return KERNEL(count_deltas)(keys, count, last, slot_shift, CODEC_XOR, counts);
}
