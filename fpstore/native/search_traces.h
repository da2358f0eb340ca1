/* Which slots of a table with one flip may hold a match, by the traces of its keys. Included by search_body.h.

   A probe of a slot that differs from the query's in one bit has no flip left and an error less: keys whose trace has
   more errors, or one among the bits of the prefix, cannot match. Of uniform keys in slots of 38, one slot in 20 remains.
   Latency here is memory latency, too: what all slots of some queries need is asked for before any is looked at. */

enum {
    TRACED_AT_ONCE = 4, /* queries */
    TRACED_KEYS = 256,  /* of a slot with more, fences tell better */
};

/* Slots of some queries: bit `bit` from the top of the slot's number inverted, behind the last one none. */
typedef struct {
    uint32_t start[TRACED_AT_ONCE][MAX_SLOT_BITS + 1], count[TRACED_AT_ONCE][MAX_SLOT_BITS + 1];
} TracedSlots;

ALWAYS_INLINE int KERNEL(is_traced)(const Table *table) { return table->traces.of_keys != NULL && table->flips == 1; }

ALWAYS_INLINE uint64_t KERNEL(flipped_slot)(const Table *table, uint64_t slot, unsigned bit) {
    return bit < table->slot_bits ? slot ^ (uint64_t)1 << (table->slot_bits - 1 - bit) : slot;
}

/* Whether one of `count` traces has at most `most` errors, and none in the bits of `prefix`. */
ALWAYS_INLINE int KERNEL(any_near)(const uint16_t *traces, unsigned count, uint16_t trace, uint16_t prefix,
                                   unsigned most) {
#ifdef KERNEL_IS_WIDE
    const __m512i wanted = _mm512_set1_epi16((short)trace), fixed = _mm512_set1_epi16((short)prefix),
                  limit = _mm512_set1_epi16((short)most);
    __mmask32 near = 0;
    for (unsigned at = 0; at < count; at += 64) { /* two vectors at a time, as most slots have up to as many keys */
        const uint64_t lanes = low_bits(count - at < 64 ? count - at : 64);
        for (unsigned half = 0; half < 2; half++) {
            const __mmask32 own = (__mmask32)(lanes >> 32 * half);
            const __m512i wrong = _mm512_xor_si512(_mm512_maskz_loadu_epi16(own, traces + at + 32 * half), wanted);
            near |= _mm512_mask_cmple_epu16_mask(_mm512_mask_testn_epi16_mask(own, wrong, fixed),
                                                 _mm512_popcnt_epi16(wrong), limit);
        }
    }
    return near != 0;
#else
    unsigned near = 0;
    for (unsigned i = 0; i < count; i++) {
        const unsigned wrong = traces[i] ^ trace;
        near |= (wrong & prefix) == 0 && KERNEL(ones)(wrong) <= most;
    }
    return near != 0;
#endif
}

/* Of each of `count` keys the slots that may hold a match: in near[], bit `bit` for flipped_slot() of that. */
static __attribute__((noinline)) void KERNEL(slots_near)(const Search *search, const Table *table, const uint64_t *keys,
                                                         unsigned count, uint64_t *near) {
    const Traces *traces = &table->traces;
    const unsigned bits = table->slot_bits;
    const uint16_t prefix = trace_prefix(table);
    TracedSlots slots;
    for (unsigned i = 0; i < count; i++)
        for (unsigned bit = 0; bit <= bits; bit++)
            __builtin_prefetch(traces->starts + KERNEL(flipped_slot)(table, slot_of(keys[i], table->slot_shift), bit));
    for (unsigned i = 0; i < count; i++)
        for (unsigned bit = 0; bit <= bits; bit++) {
            const uint64_t slot = KERNEL(flipped_slot)(table, slot_of(keys[i], table->slot_shift), bit);
            const uint32_t start = traces->starts[slot], held = traces->starts[slot + 1] - start;
            slots.start[i][bit] = start, slots.count[i][bit] = held;
            const uint16_t *first = traces->of_keys + start;
            __builtin_prefetch(first), __builtin_prefetch(first + 32), __builtin_prefetch(first + held);
        }
    for (unsigned i = 0; i < count; i++) {
        const uint16_t trace = trace_of(table, keys[i]);
        near[i] = 0;
        for (unsigned bit = 0; bit <= bits; bit++) {
            const unsigned own = bit == bits, held = slots.count[i][bit];
            const int passes =
                search->distance + own > 0 && /* or the error in the slot is one too many */
                (held > TRACED_KEYS || KERNEL(any_near)(traces->of_keys + slots.start[i][bit], held, trace,
                                                        own ? 0 : prefix, search->distance + own - 1));
            near[i] |= (uint64_t)passes << bit;
        }
    }
}

/* search_begin() where some tables are traced. */
static Status KERNEL(begin_traced)(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index) {
    Status status = OK;
    for (uint64_t first = 0; first < count; first += TRACED_AT_ONCE) {
        const unsigned some = (unsigned)(count - first < TRACED_AT_ONCE ? count - first : TRACED_AT_ONCE);
        for (unsigned t = 0; t < search->table_count; t++) {
            const Table *table = search->tables[t];
            const int traced = KERNEL(is_traced)(table);
            uint64_t keys[TRACED_AT_ONCE], near[TRACED_AT_ONCE];
            for (unsigned i = 0; i < some; i++) keys[i] = KERNEL(apply)(&table->permutation, queries[first + i]);
            if (traced) KERNEL(slots_near)(search, table, keys, some, near);
            for (unsigned i = 0; i < some && status == OK && !search->done; i++) {
                search->query_index = (uint32_t)(first_index + first + i);
                if (!traced) status = KERNEL(probe)(search, t, keys[i]);
                for (; traced && near[i] != 0 && status == OK && !search->done; near[i] &= near[i] - 1) {
                    const unsigned bit = (unsigned)__builtin_ctzll(near[i]), own = bit == table->slot_bits;
                    const uint64_t key = own ? keys[i] : keys[i] ^ (uint64_t)1 << (table->key_bits - 1 - bit);
                    status = ONE_OF(KERNEL(name_slots)(search, t, keys[i], key, own),
                                    KERNEL(probe_slots)(search, t, keys[i], key, own));
                }
            }
            if (status != OK || search->done) return status;
        }
    }
    return status;
}
