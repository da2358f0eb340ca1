/* The encoder slot by slot, what a code is chosen from, and the choice of the kernels for whole groups and many keys.
 */
#include "encode.h"

#include "permute.h"

typedef struct {
    uint64_t (*push_group)(Encoder *, const uint64_t *, uint64_t);
    int (*count_gaps)(const uint64_t *, uint64_t, uint64_t, unsigned, uint64_t *);
    int (*count_xors)(const uint64_t *, uint64_t, uint64_t, unsigned, uint64_t *);
} Kernels;

static Kernels kernels = {push_group_portable, count_gaps_portable, count_xors_portable};

void encode_choose(InstructionSet set) {
    kernels = (Kernels){push_group_portable, count_gaps_portable, count_xors_portable};
#if FPSTORE_X86
    if (set == SET_FAST) kernels = (Kernels){push_group_fast, count_gaps_fast, count_xors_fast};
    if (set == SET_WIDE) kernels = (Kernels){push_group_wide, count_gaps_wide, count_xors_wide};
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(encode_choose)

/* Append bit_count bits that another writer put into bits (its pending word stored too). */
static void put_stream(BitWriter *writer, const uint8_t *bits, uint64_t bit_count) {
    for (; bit_count >= 64; bits += 8, bit_count -= 64) put_bits(writer, load64(bits), 64);
    if (bit_count > 0) put_bits(writer, load64(bits) & low_bits((unsigned)bit_count), (unsigned)bit_count);
}

void encoder_init(Encoder *encoder, int codec, unsigned key_bits, unsigned slot_bits, unsigned rice_bits,
                  unsigned block_bytes, const uint8_t *code_lengths, const uint16_t *code_words, uint8_t *directory,
                  uint64_t *ranks) {
    memset(encoder, 0, sizeof *encoder);
    encoder->codec = codec;
    encoder->key_bits = key_bits;
    encoder->slot_bits = slot_bits;
    encoder->slot_shift = key_bits - slot_bits;
    encoder->rice_bits = rice_bits;
    encoder->block_bytes = block_bytes;
    for (int symbol = 0; symbol < SYMBOLS; symbol++) {
        unsigned length = code_lengths[symbol];
        uint16_t reversed = 0;
        for (unsigned bit = 0; bit < length; bit++)
            reversed |= (uint16_t)(((code_words[symbol] >> bit) & 1) << (length - 1 - bit));
        encoder->code_lengths[symbol] = (uint8_t)length;
        encoder->code_words[symbol] = reversed;
        unsigned all = length + (symbol > 0 ? (unsigned)symbol - 1 : 0);
        uint64_t leading = symbol > 0 && all <= WORD_CODE_BITS ? (uint64_t)1 << all : 0;
        if (symbol < 64) encoder->wide_codes[symbol] = (uint16_t)(reversed | length << MAX_CODE_BITS);
        encoder->group_codes[symbol] = (GroupCode){reversed | leading, length, all};
    }
    encoder->directory = directory;
    encoder->ranks = ranks;
    encoder->block.at = encoder->block_buffer;
    encoder->group.at = encoder->group_buffer;
    if (ranks != NULL) ranks[0] = 0;
}

void encoder_free(Encoder *encoder) {
    free(encoder->fences);
    free(encoder->keys_through);
    encoder->fences = NULL;
    encoder->keys_through = NULL;
}

static void encoder_reset_block(Encoder *encoder) {
    encoder->block.at = encoder->block_buffer;
    encoder->block.pending = 0;
    encoder->block.fill = 0;
    encoder->block_bits = 0;
    encoder->block_keys = 0;
}

/* The open block goes to the payload, with a fence: its slot is large. */
static Status encoder_emit_fenced(Encoder *encoder) {
    if (encoder->fence_count == encoder->fence_room) {
        uint64_t room = encoder->fence_room ? 2 * encoder->fence_room : 64;
        uint8_t *fences = realloc(encoder->fences, room * FENCE_BYTES);
        if (fences == NULL) return NO_MEMORY;
        encoder->fences = fences;
        if (encoder->block_bytes != 0) {
            uint64_t *keys_through = realloc(encoder->keys_through, room * sizeof *keys_through);
            if (keys_through == NULL) return NO_MEMORY;
            encoder->keys_through = keys_through;
        }
        encoder->fence_room = room;
    }
    if (encoder->block_bytes != 0) encoder->keys_through[encoder->fence_count] = encoder->key_count;
    uint8_t *fence = encoder->fences + encoder->fence_count++ * FENCE_BYTES;
    store64(fence, encoder->last_key);
    store64(fence + 8, encoder->payload_bits | encoder->block_bits << OFFSET_BITS);
    store64(encoder->block.at, encoder->block.pending);
    put_stream(&encoder->payload, encoder->block_buffer, encoder->block_bits);
    encoder->payload_bits += encoder->block_bits;
    encoder->slot_is_large = 1;
    encoder_reset_block(encoder);
    return encoder->payload_bits >> OFFSET_BITS ? TOO_LARGE : OK;
}

static void encoder_close_group(Encoder *encoder, uint64_t group) {
    uint8_t *line = encoder->directory + group * LINE_BYTES;
    store64(line, encoder->payload_bits | encoder->group_flags << OFFSET_BITS);
    memcpy(line + 8, encoder->group_ends, 2 * GROUP_SLOTS);
    store64(encoder->group.at, encoder->group.pending);
    put_stream(&encoder->payload, encoder->group_buffer, encoder->group_bits);
    encoder->payload_bits += encoder->group_bits;
    encoder->group.at = encoder->group_buffer;
    encoder->group.pending = 0;
    encoder->group.fill = 0;
    encoder->group_bits = 0;
    encoder->group_flags = 0;
    encoder->group_slot = 0;
}

/* The current slot has all its keys: close it, and open the next. */
static Status encoder_close_slot(Encoder *encoder) {
    if (encoder->block_keys > 0) {
        if (encoder->slot_is_large || encoder->block_bits > MAX_BLOCK_BITS) {
            Status status = encoder_emit_fenced(encoder);
            if (status != OK) return status;
        } else {
            store64(encoder->block.at, encoder->block.pending);
            put_stream(&encoder->group, encoder->block_buffer, encoder->block_bits);
            encoder->group_bits += encoder->block_bits;
            encoder_reset_block(encoder);
        }
    }
    if (encoder->slot_is_large) encoder->group_flags |= (uint64_t)1 << encoder->group_slot;
    encoder->slot_is_large = 0;
    encoder->group_ends[encoder->group_slot++] = (uint16_t)encoder->group_bits;
    encoder->slot++;
    if (encoder->ranks != NULL) encoder->ranks[encoder->slot] = encoder->key_count;
    if (encoder->group_slot == GROUP_SLOTS) encoder_close_group(encoder, encoder->slot / GROUP_SLOTS - 1);
    return encoder->payload_bits >> OFFSET_BITS ? TOO_LARGE : OK;
}

ALWAYS_INLINE void encoder_put_key(Encoder *encoder, uint64_t key, uint64_t previous, int codec) {
    uint64_t delta = codec == CODEC_XOR ? key ^ previous : key - previous;
    unsigned bits;
    if (codec == CODEC_GAP || codec == CODEC_XOR) {
        unsigned symbol = bit_length(delta), length = encoder->code_lengths[symbol];
        unsigned tail = symbol > 0 ? symbol - 1 : 0;
        put_bits(&encoder->block, encoder->code_words[symbol], length);
        put_bits(&encoder->block, delta & low_bits(tail), tail);
        bits = length + tail;
    } else if (codec == CODEC_RICE) {
        uint64_t quotient = delta >> encoder->rice_bits;
        if (quotient < RICE_ESCAPE) {
            put_bits(&encoder->block, (uint64_t)1 << quotient, (unsigned)quotient + 1);
            put_bits(&encoder->block, delta & low_bits(encoder->rice_bits), encoder->rice_bits);
            bits = (unsigned)quotient + 1 + encoder->rice_bits;
        } else {
            put_bits(&encoder->block, 0, RICE_ESCAPE);
            put_bits(&encoder->block, delta, 64);
            bits = RICE_ESCAPE + 64;
        }
    } else {
        put_bits(&encoder->block, key, encoder->key_bits);
        bits = encoder->key_bits;
    }
    encoder->block_bits += bits;
}

ALWAYS_INLINE Status encoder_push_as(Encoder *encoder, const uint64_t *keys, uint64_t count, int codec) {
    unsigned slot_shift = encoder->slot_shift;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = keys[i], slot = slot_of(key, slot_shift);
        if (UNLIKELY(encoder->key_count > 0 && key <= encoder->last_key)) return NOT_SORTED;
        while (encoder->slot < slot) {
            Status status = encoder_close_slot(encoder);
            if (UNLIKELY(status != OK)) return status;
            encoder->slot_keys = 0;
        }
        if (codec <= CODEC_XOR && encoder->group_slot == 0 && encoder->block_keys == 0 && !encoder->slot_is_large) {
            uint64_t taken = kernels.push_group(encoder, keys + i, count - i);
            if (taken > 0) {
                i += taken - 1; /* the loop adds one */
                continue;
            }
        }
        if (UNLIKELY(encoder->block_keys == MAX_BLOCK_KEYS)) {
            Status status = encoder_emit_fenced(encoder);
            if (status != OK) return status;
        }
        encoder_put_key(encoder, key, encoder->slot_keys == 0 ? slot_start(slot, slot_shift) : encoder->last_key,
                        codec);
        encoder->slot_keys++;
        encoder->block_keys++;
        encoder->key_count++;
        encoder->last_key = key;
    }
    return OK;
}

/* Bits that encoder_put_key() takes. */
static unsigned key_code_bits(const Encoder *encoder, uint64_t key, uint64_t previous) {
    const uint64_t delta = encoder->codec == CODEC_XOR ? key ^ previous : key - previous;
    if (encoder->codec == CODEC_RAW) return encoder->key_bits;
    if (encoder->codec == CODEC_RICE) {
        const uint64_t quotient = delta >> encoder->rice_bits;
        return quotient < RICE_ESCAPE ? (unsigned)quotient + 1 + encoder->rice_bits : RICE_ESCAPE + 64;
    }
    return encoder->group_codes[bit_length(delta)].all;
}

/* encoder_push_as() of a table of blocks: one ends before the first key whose code it has no room for. */
static Status push_blocks(Encoder *encoder, const uint64_t *keys, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t key = keys[i];
        if (UNLIKELY(encoder->key_count > 0 && key <= encoder->last_key)) return NOT_SORTED;
        if (encoder->block_keys > 0 &&
            encoder->block_bits + key_code_bits(encoder, key, encoder->last_key) > 8 * encoder->block_bytes) {
            Status status = encoder_emit_fenced(encoder);
            if (status != OK) return status;
        }
        encoder_put_key(encoder, key, encoder->last_key, encoder->block_keys == 0 ? CODEC_RAW : encoder->codec);
        encoder->block_keys++;
        encoder->key_count++;
        encoder->last_key = key;
    }
    return OK;
}

Status encoder_push(Encoder *encoder, const uint64_t *keys, uint64_t count, uint8_t *out, uint64_t *written) {
    Status status;
    encoder->payload.at = out;
    *written = 0;
    if (!keys_fit(keys, count, encoder->key_bits)) return TOO_WIDE;
    if (encoder->block_bytes != 0) {
        status = push_blocks(encoder, keys, count);
        *written = (uint64_t)(encoder->payload.at - out);
        return status;
    }
    switch (encoder->codec) { /* a constant in each call, so that each codec gets a loop of its own */
    case CODEC_GAP: status = encoder_push_as(encoder, keys, count, CODEC_GAP); break;
    case CODEC_XOR: status = encoder_push_as(encoder, keys, count, CODEC_XOR); break;
    case CODEC_RICE: status = encoder_push_as(encoder, keys, count, CODEC_RICE); break;
    default: status = encoder_push_as(encoder, keys, count, CODEC_RAW); break;
    }
    *written = (uint64_t)(encoder->payload.at - out);
    return status;
}

Status encoder_finish(Encoder *encoder, uint8_t *out, uint64_t *written) {
    encoder->payload.at = out;
    uint64_t slots = encoder->block_bytes != 0 ? 0 : (uint64_t)1 << encoder->slot_bits;
    if (encoder->block_bytes != 0 && encoder->block_keys > 0) {
        Status status = encoder_emit_fenced(encoder);
        if (status != OK) return status;
    }
    while (encoder->slot < slots) {
        Status status = encoder_close_slot(encoder);
        if (status != OK) return status;
        encoder->slot_keys = 0;
    }
    if (encoder->group_slot > 0) {
        for (unsigned slot = encoder->group_slot; slot < GROUP_SLOTS; slot++)
            encoder->group_ends[slot] = (uint16_t)encoder->group_bits;
        encoder_close_group(encoder, (slots - 1) / GROUP_SLOTS);
    }
    store64(encoder->payload.at, encoder->payload.pending);
    *written = (uint64_t)(encoder->payload.at - out) + (encoder->payload.fill + 7) / 8;
    return OK;
}

static int sum_gaps(const uint64_t *keys, uint64_t count, uint64_t last, unsigned slot_shift, uint64_t *sum) {
    int increase = 1;
    for (uint64_t i = 0; i < count; last = keys[i++]) {
        uint64_t start = keys[i] & ~low_bits(slot_shift);
        increase &= keys[i] > last;
        *sum += keys[i] - (last > start ? last : start);
    }
    return increase;
}

Status histogram_add(Histogram *histogram, const uint64_t *keys, uint64_t count, int codec) {
    const unsigned slot_shift = histogram->slot_shift;
    uint64_t last = histogram->last_key;
    int increase = 1;
    if (histogram->count == 0 && count > 0) { /* no key is before the first, which may be 0 */
        uint64_t delta = keys[0] & low_bits(slot_shift);
        histogram->gap[bit_length(delta)]++;
        histogram->xor_[bit_length(delta)]++;
        histogram->gap_sum += delta;
        histogram->count = 1;
        last = *keys++;
        count--;
    }
    if (codec < 0 || codec == CODEC_GAP) increase &= kernels.count_gaps(keys, count, last, slot_shift, histogram->gap);
    if (codec < 0 || codec == CODEC_XOR) increase &= kernels.count_xors(keys, count, last, slot_shift, histogram->xor_);
    if (codec < 0 || codec >= CODEC_RICE) increase &= sum_gaps(keys, count, last, slot_shift, &histogram->gap_sum);
    histogram->last_key = count > 0 ? keys[count - 1] : last;
    histogram->count += count;
    return increase ? OK : NOT_SORTED;
}

void rice_cost(const uint64_t *keys, uint64_t count, uint64_t *last_key, int *started, unsigned slot_shift,
               unsigned rice_bits, uint64_t *bits) {
    uint64_t last = *last_key, total = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t start = keys[i] & ~low_bits(slot_shift);
        uint64_t delta = keys[i] - (*started && last >= start ? last : start);
        uint64_t quotient = delta >> rice_bits;
        total += quotient < RICE_ESCAPE ? quotient + 1 + rice_bits : RICE_ESCAPE + 64;
        last = keys[i];
        *started = 1;
    }
    *last_key = last;
    *bits += total;
}
