/* Looking through strings of JSON, for any machine. */
#include "json_lines.h"

#include "portable.h"

#define ONES 0x0101010101010101u
#define HIGHS 0x8080808080808080u

/* The bytes of a word that are 0 have their high bit set; of others only where no bit is asked for anyhow. */
ALWAYS_INLINE uint64_t zeros(uint64_t word) { return (word - ONES) & ~word & HIGHS; }

uint64_t plain_bytes_portable(const uint8_t *at, uint64_t size) {
    uint64_t done = 0;
    for (; size - done >= 8; done += 8) {
        const uint64_t word = load64(at + done);
        const uint64_t controls = (word - ONES * 0x20) & ~word;
        if (((word | controls) & HIGHS) | zeros(word ^ ONES * '"') | zeros(word ^ ONES * '\\')) break;
    }
    return done;
}
