/* CRC-32C by the instruction of ARMv8. */
#include "crc32c.h"

#include <arm_acle.h>

#define KERNEL(name) name##_arm64

uint32_t KERNEL(crc32c)(uint32_t crc, const uint8_t *data, size_t size) {
    uint32_t sum = ~crc;
    for (; size >= 8; data += 8, size -= 8) sum = __crc32cd(sum, load64(data));
    for (; size > 0; data++, size--) sum = __crc32cb(sum, *data);
    return ~sum;
}

void KERNEL(crc32c_three)(const uint8_t *data, size_t page_bytes, uint32_t *out) {
    uint32_t a = 0xFFFFFFFFu, b = a, c = a;
    for (size_t i = 0; i < page_bytes; i += 8) {
        a = __crc32cd(a, load64(data + i));
        b = __crc32cd(b, load64(data + page_bytes + i));
        c = __crc32cd(c, load64(data + 2 * page_bytes + i));
    }
    out[0] = ~a;
    out[1] = ~b;
    out[2] = ~c;
}
