/* What the fuzzer changes about the kernels: included before each of their files. */
#include <stdint.h>

/* Its loops, thousands of turns for each input, have nothing to find. */
void decode_init(uint16_t *decode, const uint8_t *code_lengths) __attribute__((no_sanitize_coverage));

/* A hint, which takes longer than the rest, about memory that is no mapping here. */
#include <sys/mman.h>
#define madvise(address, bytes, advice) ((void)(address), 0)
