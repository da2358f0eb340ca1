/* Looking through strings of JSON, 32 bytes at a time. */
#include "json_lines.h"

#include "fast.h"

uint64_t plain_bytes_fast(const uint8_t *at, uint64_t size) {
    const __m256i quote = _mm256_set1_epi8('"'), backslash = _mm256_set1_epi8('\\');
    const __m256i below = _mm256_set1_epi8(0x20);
    uint64_t done = 0;
    for (; size - done >= 32; done += 32) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(at + done));
        /* Signed: what is not ASCII is below 0x20 too. */
        const __m256i odd =
            _mm256_or_si256(_mm256_cmpgt_epi8(below, bytes),
                            _mm256_or_si256(_mm256_cmpeq_epi8(bytes, quote), _mm256_cmpeq_epi8(bytes, backslash)));
        const uint32_t found = (uint32_t)_mm256_movemask_epi8(odd);
        if (found) return done + (uint64_t)__builtin_ctz(found);
    }
    return done;
}
