/* CRC-32C by the instruction of SSE4.2. */
#include "crc32c.h"

#include "fast.h"

ALWAYS_INLINE uint32_t moved(uint32_t sum) {
    return crc32c_moved[0][sum & 255] ^ crc32c_moved[1][sum >> 8 & 255] ^ crc32c_moved[2][sum >> 16 & 255] ^
           crc32c_moved[3][sum >> 24];
}

uint32_t KERNEL(crc32c)(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t sum = ~crc;
    for (; size >= 3 * CRC_STRETCH; data += 3 * CRC_STRETCH, size -= 3 * CRC_STRETCH) {
        uint64_t second = 0, third = 0;
        for (size_t i = 0; i < CRC_STRETCH; i += 8) {
            sum = _mm_crc32_u64(sum, load64(data + i));
            second = _mm_crc32_u64(second, load64(data + CRC_STRETCH + i));
            third = _mm_crc32_u64(third, load64(data + 2 * CRC_STRETCH + i));
        }
        sum = moved(moved((uint32_t)sum) ^ (uint32_t)second) ^ third;
    }
    for (; size >= 8; data += 8, size -= 8) sum = _mm_crc32_u64(sum, load64(data));
    for (; size > 0; data++, size--) sum = _mm_crc32_u8((uint32_t)sum, *data);
    return ~(uint32_t)sum;
}

void KERNEL(crc32c_three)(const uint8_t *data, size_t page_bytes, uint32_t *out) {
    uint64_t a = 0xFFFFFFFFu, b = a, c = a;
    for (size_t i = 0; i < page_bytes; i += 8) {
        a = _mm_crc32_u64(a, load64(data + i));
        b = _mm_crc32_u64(b, load64(data + page_bytes + i));
        c = _mm_crc32_u64(c, load64(data + 2 * page_bytes + i));
    }
    out[0] = ~(uint32_t)a;
    out[1] = ~(uint32_t)b;
    out[2] = ~(uint32_t)c;
}
