/* What the driver and the harness of the fuzzer know of each other. */
#ifndef FUZZ_HARNESS_H
#define FUZZ_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#define MAX_SPANS 17

/* Use the file that an input stands for in every way; both: by the portable kernels too, which must do the same.
   Whether no kernel found anything wrong. */
int harness_run(const uint8_t *data, size_t size, int both);

/* The runs of the last input that belong together (a record, a region), up to MAX_SPANS; how many. */
unsigned harness_spans(size_t *offsets, size_t *bytes);

/* A kernel did not keep this promise. */
void harness_failed(const char *promise) __attribute__((noreturn));

#endif
