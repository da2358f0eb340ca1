/* Documents of one piece that share a band. */
#include "banded.h"

uint32_t values_differing(const uint64_t *one, const uint64_t *other, uint64_t words, unsigned width, uint32_t far) {
    uint64_t lowest = 0;
    uint32_t count = 0;
    for (unsigned at = 0; at < 64; at += width) lowest |= UINT64_C(1) << at;
    for (uint64_t i = 0; i < words; i++) {
        uint64_t apart = one[i] ^ other[i];
        for (unsigned shift = 1; shift < width; shift *= 2) apart |= apart >> shift;
        count += (uint32_t)__builtin_popcountll(apart & lowest);
    }
    return count < far ? count : far;
}

void banded_look(Banded *banded, uint8_t *is_near, uint8_t *has_earlier) {
    const uint64_t entries = banded->count * banded->bands;
    for (uint64_t i = 0; i < entries; i++) {
        const uint64_t key = banded->keys[i];
        uint64_t slot = (key * UINT64_C(0x9E3779B97F4A7C15) >> 32) & banded->slot_mask;
        while (banded->slots[slot] != 0 && banded->keys[banded->slots[slot] - 1] != key) {
            slot = (slot + 1) & banded->slot_mask;
        }
        if (banded->slots[slot] == 0) banded->slots[slot] = (uint32_t)i + 1;
        banded->firsts[i] = banded->slots[slot] - 1;
        const uint64_t own = i / banded->bands, first = banded->firsts[i] / banded->bands;
        if (own != first) is_near[own] = is_near[first] = has_earlier[own] = 1;
    }
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
