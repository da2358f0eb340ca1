/* CRC-32C (Castagnoli, reflected polynomial 0x82F63B78, as in RFC 3720): by the CPU's instruction, else by
   eight tables (slicing by 8). */
#ifndef FPSTORE_CRC32C_H
#define FPSTORE_CRC32C_H

#include "platform.h"

/* The CRC of data that continues data whose CRC is `crc`; 0 for none. */
uint32_t crc32c(uint32_t crc, const uint8_t *data, size_t size);

/* out[i] = CRC of page i of data; the last page may be short. */
void crc32c_pages(const uint8_t *data, size_t size, size_t page_bytes, uint32_t *out);

void crc32c_choose(InstructionSet set);

/* What crc32c_fast reads side by side: three stretches of so many bytes. */
#define CRC_STRETCH 256

/* What becomes of a sum, without the inversions, behind which CRC_STRETCH zeros come: that of each of its bytes. */
extern HIDDEN uint32_t crc32c_moved[4][256];

/* crc32c_three: three pages side by side, each of a multiple of 8 bytes. The instruction takes three cycles, but one
   can start every cycle. */
#define CRC_KERNELS(set)                                                   \
    uint32_t crc32c_##set(uint32_t crc, const uint8_t *data, size_t size); \
    void crc32c_three_##set(const uint8_t *data, size_t page_bytes, uint32_t *out);
CRC_KERNELS(fast)
CRC_KERNELS(arm64)
#undef CRC_KERNELS

#endif
