/* A blocked Bloom filter in front of exact keys, as it might be: what it would bring is for
   tools/bench_minhash_store.py to say. A block is a cache line; a key sets and asks for eight bits of it, one in each
   word. */
#include <stddef.h>
#include <stdint.h>

#define WORDS 8
#define AT_ONCE 64

static uint64_t hash_of(uint64_t key) {
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93u;
    key = (key ^ key >> 32) * 0xD6E8FEB86659FD93u;
    return key ^ key >> 32;
}

static uint64_t *block_of(uint64_t *blocks, uint64_t count, uint64_t hash) {
    return blocks + WORDS * (uint64_t)((unsigned __int128)hash * count >> 64);
}

/* Odd numbers without a pattern, one for each word. */
static const uint64_t FACTORS[WORDS] = {0x47B6137B44974D91u, 0x8824AD5BA2B7289Du, 0x705495C72DF1424Bu,
                                        0x9EFC49475C6BFB31u, 0xC4CEB9FE1A85EC53u, 0xFF51AFD7ED558CCDu,
                                        0x2545F4914F6CDD1Du, 0xD1342543DE82EF95u};

static uint64_t bit_of(uint64_t hash, int word, int used) {
    return word < used ? (uint64_t)1 << ((uint32_t)hash * FACTORS[word] >> 58) : 0;
}

void filter_fill(uint64_t *blocks, uint64_t block_count, const uint64_t *keys, size_t count, int used) {
    for (size_t i = 0; i < count; i++) {
        uint64_t hash = hash_of(keys[i]), *block = block_of(blocks, block_count, hash);
        for (int word = 0; word < WORDS; word++) block[word] |= bit_of(hash, word, used);
    }
}

/* How many of keys may be there. */
size_t filter_ask(uint64_t *blocks, uint64_t block_count, const uint64_t *keys, size_t count, int used) {
    size_t found = 0;
    for (size_t first = 0; first < count; first += AT_ONCE) {
        size_t some = count - first < AT_ONCE ? count - first : AT_ONCE;
        uint64_t hashes[AT_ONCE];
        for (size_t i = 0; i < some; i++) {
            hashes[i] = hash_of(keys[first + i]);
            __builtin_prefetch(block_of(blocks, block_count, hashes[i]));
        }
        for (size_t i = 0; i < some; i++) {
            const uint64_t *block = block_of(blocks, block_count, hashes[i]);
            uint64_t missing = 0;
            for (int word = 0; word < WORDS; word++) missing |= bit_of(hashes[i], word, used) & ~block[word];
            found += missing == 0;
        }
    }
    return found;
}
