/* MD5 and SHA-256, from RFC 1321 and FIPS 180-4, for fingerprints that other tools make: the last 8 bytes of each. */
#ifndef FPSTORE_TEXT_DIGEST_H
#define FPSTORE_TEXT_DIGEST_H

#include "platform.h"

/* The last 8 of the 16 bytes of MD5, as a big-endian number. */
uint64_t md5_tail(const uint8_t *data, size_t size);

/* The last 8 of the 32 bytes of SHA-256, as a big-endian number. */
uint64_t sha256_tail(const uint8_t *data, size_t size);

#endif
