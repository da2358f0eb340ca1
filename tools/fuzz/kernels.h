/* What the fuzzer changes about the kernels: included before each of their files. */
#define _GNU_SOURCE
#include <stdint.h>

/* Its loops, thousands of turns for each input, have nothing to find. */
void decode_init(uint16_t *decode, const uint8_t *code_lengths) __attribute__((no_sanitize_coverage));

/* Hints, which take longer than the rest, about memory that is no mapping here. */
#include <sys/mman.h>
#define madvise(address, bytes, advice) ((void)(address), 0)
#define mremap(address, old, bytes, flags) ((void)(address), MAP_FAILED)
