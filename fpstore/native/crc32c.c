/* CRC-32C by tables, and the choice of how it is computed. */
#include "crc32c.h"

static uint32_t table[8][256];
uint32_t crc32c_moved[4][256];

typedef struct {
    uint32_t (*crc)(uint32_t, const uint8_t *, size_t);
    void (*three)(const uint8_t *, size_t, uint32_t *); /* NULL without */
} Kernels;

static uint32_t crc32c_portable(uint32_t crc, const uint8_t *data, size_t size) {
    crc = ~crc;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word = load64(data) ^ crc;
        crc = 0;
        for (int slice = 0; slice < 8; slice++) crc ^= table[7 - slice][(word >> (8 * slice)) & 255];
    }
    for (; size > 0; data++, size--) crc = (crc >> 8) ^ table[0][(crc ^ *data) & 255];
    return ~crc;
}

static Kernels kernels = {crc32c_portable, NULL};

static void fill_table(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82F63B78u & (0u - (crc & 1)));
        table[0][i] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t before = table[slice - 1][i];
            table[slice][i] = (before >> 8) ^ table[0][before & 255];
        }
}

static void fill_moved(void) {
    static const uint8_t zeros[CRC_STRETCH];
    for (int bit = 0; bit < 32; bit++) {
        const uint32_t crc = ~crc32c_portable(~(UINT32_C(1) << bit), zeros, CRC_STRETCH), own = 1u << bit % 8;
        for (uint32_t i = 0; i < own; i++) crc32c_moved[bit / 8][own + i] = crc ^ crc32c_moved[bit / 8][i];
    }
}

void crc32c_choose(InstructionSet set) {
    fill_table();
    fill_moved();
    kernels = (Kernels){crc32c_portable, NULL};
#if FPSTORE_X86
    if (set >= SET_FAST) kernels = (Kernels){crc32c_fast, crc32c_three_fast};
#elif FPSTORE_ARM64
    if (set >= SET_FAST) kernels = (Kernels){crc32c_arm64, crc32c_three_arm64};
#else
    (void)set;
#endif
}

CHOSEN_AT_LOAD(crc32c_choose)

uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t size) { return kernels.crc(crc, data, size); }

void crc32c_pages(const uint8_t *data, size_t size, size_t page_bytes, uint32_t *out) {
    if (kernels.three != NULL && page_bytes % 8 == 0)
        for (; size >= 3 * page_bytes; data += 3 * page_bytes, size -= 3 * page_bytes, out += 3)
            kernels.three(data, page_bytes, out);
    for (; size > 0; out++) {
        size_t bytes = size < page_bytes ? size : page_bytes;
        *out = crc32c(0, data, bytes);
        data += bytes;
        size -= bytes;
    }
}
