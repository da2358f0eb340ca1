/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78, as in RFC 3720): by the CPU's instruction, else by
   eight tables (slicing by 8). */
#ifndef FPSTORE_CRC32C_H
#define FPSTORE_CRC32C_H

#include "platform.h"

static uint32_t crc32c_table[8][256];
static int crc32c_hardware = 0;

#if FPSTORE_X86
__attribute__((target("sse4.2"))) static uint32_t crc32c_fast(uint32_t crc, const uint8_t *data, size_t size) {
    uint64_t sum = ~crc;
    for (; size >= 8; data += 8, size -= 8) sum = _mm_crc32_u64(sum, load64(data));
    for (; size > 0; data++, size--) sum = _mm_crc32_u8((uint32_t)sum, *data);
    return ~(uint32_t)sum;
}

/* Three pages side by side: the instruction takes three cycles but one can start every cycle. */
__attribute__((target("sse4.2"))) static void crc32c_three(const uint8_t *data, size_t page_bytes, uint32_t *out) {
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
#endif

static void crc32c_choose(int fast) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
        crc32c_table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = crc32c_table[slice - 1][i];
            crc32c_table[slice][i] = (before >> 8) ^ crc32c_table[0][before & 255];
        }
    crc32c_hardware = fast;
}

static uint32_t crc32c_portable(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word = load64(data) ^ crc;
        crc = 0;
        for (int slice = 0; slice < 8; slice++) crc ^= crc32c_table[7 - slice][(word >> (8 * slice)) & 255];
    }
    for (; size > 0; data++, size--) crc = (crc >> 8) ^ crc32c_table[0][(crc ^ *data) & 255];
    return ~crc;
}

static uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t size) {
#if FPSTORE_X86
    if (crc32c_hardware) return crc32c_fast(crc, data, size);
#endif
    return crc32c_portable(crc, data, size);
}

/* out[i] = CRC of page i of data; the last page may be short. */
static void crc32c_pages(const uint8_t *data, size_t size, size_t page_bytes, uint32_t *out) {
#if FPSTORE_X86
    if (crc32c_hardware && page_bytes % 8 == 0)
        for (; size >= 3 * page_bytes; data += 3 * page_bytes, size -= 3 * page_bytes, out += 3)
            crc32c_three(data, page_bytes, out);
#endif
    for (; size > 0; out++) {
        size_t bytes = size < page_bytes ? size : page_bytes;
        *out = crc32c(0, data, bytes);
        data += bytes;
        size -= bytes;
    }
}

#endif
