/* A small coverage-guided fuzzer for gcc, in one process: mutate an input of the corpus, run it, keep it if it came to
   a branch, or came to one more often, than any before.

       fuzz INPUTS SECONDS SEED FINDING FILE...

   FILE...: the first corpus, run as it is. INPUTS mutated ones follow, or fewer if the time is up. The input under
   which something fails is written to FINDING; `fuzz 0 0 0 FINDING FINDING` runs it again. */
#include "harness.h"

#include <sanitizer/common_interface_defs.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAP_BYTES (1u << 15)
#define MAX_BYTES 16384
#define MAX_CORPUS 65536
#define HANG_SECONDS 20
#define COMPARE_EVERY 8 /* of the inputs that bring nothing new, so many go through the portable kernels too */

typedef struct {
    uint8_t *data;
    size_t size;
    unsigned span_count; /* what belongs together in it */
    size_t offsets[MAX_SPANS], bytes[MAX_SPANS];
} Kept;

static uint8_t hits[MAP_BYTES], known[MAP_BYTES];
static uintptr_t before;
static Kept corpus[MAX_CORPUS];
static unsigned corpus_count;
static uint64_t sound_count;
static uint8_t current[MAX_BYTES];
static size_t current_size;
static const char *finding_path;
static uint64_t random_state;

void __sanitizer_cov_trace_pc(void) {
    uintptr_t place = (uintptr_t)__builtin_return_address(0);
    hits[(place ^ before) % MAP_BYTES]++;
    before = place << 5 ^ place >> 3;
}

static uint64_t draw(uint64_t below) { /* xorshift64* */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (random_state * 0x2545f4914f6cdd1d >> 16) % below;
}

/* A count as a bit of its size: 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 to 127, more. */
static uint8_t size_class(uint8_t count) {
    if (count <= 3) return (uint8_t)(count == 0 ? 0 : 1 << (count - 1));
    return count < 8 ? 8 : count < 16 ? 16 : count < 32 ? 32 : count < 128 ? 64 : 128;
}

static void save_finding(void) {
    FILE *file = fopen(finding_path, "wb");
    if (file == NULL) return;
    fwrite(current, 1, current_size, file);
    fclose(file);
}

void harness_failed(const char *promise) {
    fprintf(stderr, "does not hold: %s\n", promise);
    save_finding();
    _exit(1);
}

static void hang(int number) {
    (void)number;
    harness_failed("an input takes no longer than 20 seconds");
}

/* Run current; whether it came anywhere new. */
static int run_current(int compare) {
    memset(hits, 0, sizeof hits);
    before = 0;
    alarm(HANG_SECONDS);
    uint8_t *copy = malloc(current_size + 1); /* of its own, so that the sanitizer knows where it ends */
    memcpy(copy, current, current_size);
    sound_count += (uint64_t)harness_run(copy, current_size, 0);
    int fresh = 0;
    for (unsigned i = 0; i < MAP_BYTES; i += 8) {
        uint64_t eight;
        memcpy(&eight, hits + i, 8);
        if (eight == 0) continue;
        for (unsigned j = i; j < i + 8; j++) {
            uint8_t size = size_class(hits[j]);
            fresh |= (size & ~known[j]) != 0;
            known[j] |= size;
        }
    }
    if (fresh || compare) harness_run(copy, current_size, 1);
    free(copy);
    return fresh;
}

static void keep_current(void) {
    Kept *kept = &corpus[corpus_count < MAX_CORPUS ? corpus_count++ : draw(MAX_CORPUS)];
    free(kept->data);
    kept->data = malloc(current_size + 1);
    kept->size = current_size;
    memcpy(kept->data, current, current_size);
    kept->span_count = harness_spans(kept->offsets, kept->bytes);
}

/* A number at the edge of what a field of 1, 2, 4 or 8 bytes may hold, or anywhere. */
static uint64_t number(unsigned bytes) {
    uint64_t bit = (uint64_t)1 << draw(8 * bytes);
    switch (draw(5)) {
    case 0: return bit;
    case 1: return bit - 1;
    case 2: return ~(uint64_t)0 - draw(4);
    case 3: return draw(32);
    default: return draw(~(uint64_t)0);
    }
}

/* One change, in a record or region of the parent picked first: the small ones matter as much as the large. */
static void mutate(const Kept *parent) {
    static const unsigned widths[] = {1, 2, 4, 8};
    size_t start = 0, length = current_size, at;
    unsigned span = (unsigned)draw(parent->span_count + 1);
    if (span < parent->span_count && parent->offsets[span] + parent->bytes[span] <= current_size)
        start = parent->offsets[span], length = parent->bytes[span];
    if (length == 0) return;
    at = start + draw(length);
    size_t rest = start + length - at, run = 1 + draw(rest < 64 ? rest : 64);
    unsigned width = widths[draw(4)];
    uint64_t value;
    switch (draw(10)) {
    case 0:
    case 1: current[at] ^= (uint8_t)(1u << draw(8)); break;
    case 2: current[at] = (uint8_t)draw(256); break;
    case 3:
    case 4:
        at = start + (at - start) / width * width; /* fields lie at multiples of their width */
        value = number(width);
        if (at + width <= current_size) memcpy(current + at, &value, width);
        break;
    case 5:
        if (at + width <= current_size) {
            memcpy(&value, current + at, width);
            value += draw(2) ? 1 + draw(16) : ~draw(16);
            memcpy(current + at, &value, width);
        }
        break;
    case 6: memset(current + at, draw(2) ? 0 : 255, run); break;
    case 7: memmove(current + start + draw(length - run + 1), current + at, run); break;
    case 8: /* a piece of another input, from the same place or from any */
        if (corpus_count > 0) {
            const Kept *other = &corpus[draw(corpus_count)];
            size_t from = draw(2) || other->size == 0 ? at : draw(other->size);
            if (from < other->size)
                memcpy(current + at, other->data + from, run < other->size - from ? run : other->size - from);
        }
        break;
    default: /* bytes in or out: what follows belongs to another place */
        run = 1 + draw(16);
        if (draw(2) && current_size + run <= MAX_BYTES) {
            memmove(current + at + run, current + at, current_size - at);
            current_size += run;
        } else if (at + run < current_size) {
            memmove(current + at, current + at + run, current_size - at - run);
            current_size -= run;
        }
    }
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    current_size = fread(current, 1, MAX_BYTES, file);
    fclose(file);
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: %s INPUTS SECONDS SEED FINDING FILE...\n", argv[0]);
        return 2;
    }
    uint64_t wanted = strtoull(argv[1], NULL, 10), run = 0, edges = 0;
    time_t start = time(NULL), limit = (time_t)strtoull(argv[2], NULL, 10);
    random_state = 0x9e3779b97f4a7c15 ^ strtoull(argv[3], NULL, 10) << 20;
    finding_path = argv[4];
    __sanitizer_set_death_callback(save_finding);
    signal(SIGALRM, hang);
    for (int i = 5; i < argc; i++) {
        load(argv[i]);
        run_current(1);
        keep_current();
    }
    printf("%llu of %u files sound; ", (unsigned long long)sound_count, corpus_count);
    while (run < wanted && time(NULL) - start < limit) {
        const Kept *parent = &corpus[draw(corpus_count)];
        current_size = parent->size;
        memcpy(current, parent->data, parent->size);
        for (uint64_t changes = (uint64_t)1 << draw(5); changes > 0; changes--) mutate(parent);
        if (run_current(++run % COMPARE_EVERY == 0)) keep_current();
    }
    for (unsigned i = 0; i < MAP_BYTES; i++) edges += known[i] != 0;
    printf("%llu inputs, %llu sound with the files, %u in the corpus, %llu branches\n", (unsigned long long)run,
           (unsigned long long)sound_count, corpus_count, (unsigned long long)edges);
    return 0;
}
