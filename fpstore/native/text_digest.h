/* MD5, SHA-1, SHA-256 and BLAKE2b, from RFC 1321, FIPS 180-4 and RFC 7693, for fingerprints that other tools make: 8 bytes. */
#ifndef FPSTORE_TEXT_DIGEST_H
#define FPSTORE_TEXT_DIGEST_H

#include "platform.h"

/* The last 8 of the 16 bytes of MD5, as a big-endian number. */
uint64_t md5_tail(const uint8_t *data, size_t size);

/* The first 8 of the 16 bytes of MD5, as a big-endian number. */
uint64_t md5_head(const uint8_t *data, size_t size);

/* The first 8 of the 20 bytes of SHA-1, as a little-endian number. */
uint64_t sha1_head(const uint8_t *data, size_t size);

/* The last 8 of the 32 bytes of SHA-256, as a big-endian number. */
uint64_t sha256_tail(const uint8_t *data, size_t size);

/* BLAKE2b with a digest of 8 bytes and no key, as a big-endian number. */
uint64_t blake2b_8(const uint8_t *data, size_t size);

#endif
