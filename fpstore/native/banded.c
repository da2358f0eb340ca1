/* Documents of one piece that share a band. */
#include "banded.h"

/* Of each `width` bits the lowest: width is 1, 2, 4, 8, 16 or 32. */
ALWAYS_INLINE uint64_t lowest_bits(unsigned width) {
    static const uint64_t of_width[] = {UINT64_MAX,
                                        UINT64_C(0x5555555555555555),
                                        UINT64_C(0x1111111111111111),
                                        UINT64_C(0x0101010101010101),
                                        UINT64_C(0x0001000100010001),
                                        UINT64_C(0x0000000100000001)};
    return of_width[__builtin_ctz(width)];
}

uint32_t values_differing(const uint64_t *one, const uint64_t *other, uint64_t words, unsigned width, uint32_t far) {
    const uint64_t lowest = lowest_bits(width);
    uint32_t count = 0;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t apart = one[i] ^ other[i];
        for (unsigned shift = 1; shift < width; shift *= 2) apart |= apart >> shift;
        count += (uint32_t)__builtin_popcountll(apart & lowest);
    }
    return count < far ? count : far;
}

/* The same of one band. */
static void look_at_band(Banded *banded, uint64_t band, uint8_t *is_near, uint8_t *has_earlier) {
    const uint64_t bands = banded->bands;
    for (uint64_t i = 0; i < banded->count; i++) banded->column[i] = banded->keys[i * bands + band];
    memset(banded->slots, 0, (banded->slot_mask + 1) * sizeof *banded->slots);
    for (uint64_t i = 0; i < banded->count; i++) {
        const uint64_t key = banded->column[i];
        uint64_t slot = (key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & banded->slot_mask;
        while (banded->slots[slot] != 0 && banded->column[banded->slots[slot] - 1] != key) {
            slot = (slot + 1) & banded->slot_mask;
        }
        if (banded->slots[slot] == 0) banded->slots[slot] = (uint32_t)i + 1;
        const uint64_t first = banded->slots[slot] - 1;
        banded->firsts[i * bands + band] = (uint32_t)(first * bands + band);
        if (first != i) is_near[i] = is_near[first] = has_earlier[i] = 1;
    }
}

void banded_look(Banded *banded, uint8_t *is_near, uint8_t *has_earlier) {
    for (uint64_t band = 0; band < banded->bands; band++) look_at_band(banded, band, is_near, has_earlier);
}

void banded_lead(Banded *banded, uint64_t document) {
    const uint64_t first = document * banded->bands;
    for (uint64_t i = first; i < first + banded->bands; i++) {
        uint32_t *head = &banded->heads[banded->firsts[i]];
        banded->earlier[i] = *head;
        *head = (uint32_t)i + 1;
    }
}

uint64_t banded_near(Banded *banded, uint64_t document, uint32_t *leaders, uint32_t *differing) {
    const uint64_t *sketch = banded->sketches + document * banded->words;
    const uint64_t first = document * banded->bands;
    uint64_t count = 0;
    for (uint64_t i = first; i < first + banded->bands; i++) {
        for (uint32_t entry = banded->heads[banded->firsts[i]]; entry != 0; entry = banded->earlier[entry - 1]) {
            const uint64_t leader = (entry - 1) / banded->bands;
            if (banded->askers[leader] == document + 1) continue;
            banded->askers[leader] = (uint32_t)document + 1;
            const uint32_t apart = values_differing(sketch, banded->sketches + leader * banded->words, banded->words,
                                                    banded->width, banded->far);
            if (apart > banded->most) continue;
            leaders[count] = (uint32_t)leader;
            differing[count++] = apart;
        }
    }
    return count;
}
