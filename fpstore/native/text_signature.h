/* MinHash signatures: of each of many permutations the smallest value over the hashes of a document's shingles.

   BINNED is fpstore's own. A hash, mixed, falls into one of as many bins as there are values, and the value of a bin is
   the smallest of the 31 bits of a hash in it (one permutation hashing, Li, Owen and Zhang, NIPS 2012). A bin into
   which none falls has 31 bits of the smallest value of a permutation of its own instead, behind a bit that is set. So
   every value is the smallest of what all hashes are worth to its bin, and those of a union are the smaller ones of its
   parts (this is Fast Similarity Sketching, Dahlgaard, Knudsen and Thorup, FOCS 2017, of one round of bins).

   AFFINE32, AFFINE64 and LEGACY are the three schemes of datasketch 2, and RENSA is that of rensa 0.5. */
#ifndef FPSTORE_TEXT_SIGNATURE_H
#define FPSTORE_TEXT_SIGNATURE_H

#include "text_minhash.h"

#define MAX_VALUES 1024
#define LANES_ROOM 64         /* factors and terms are there for a multiple of so many */
#define EMPTY_BIN 0x80000000u /* set in the value of a bin of BINNED into which no hash fell */
#define HALVES_AT_ONCE 2048   /* of hashes that wait until it is known which bins stay empty */

/* An odd number, 2^64 over the golden ratio: what hashes are multiplied by before they fall into bins, so that those
   too whose high bits are poor (FNV of short texts) fall into all. */
#define BIN_FACTOR 0x9E3779B97F4A7C15u

/* Those of values of 32 bits first. */
typedef enum { BINNED, AFFINE32, RENSA, AFFINE64, LEGACY } PermutationKind;

typedef struct {
    int kind;
    uint32_t values;
    const uint32_t *factors, *terms;           /* of the kinds of 32 bits, also of what fills up the last lanes */
    const uint64_t *wide_factors, *wide_terms; /* of AFFINE64, LEGACY and RENSA */
} Signer;

/* The signature of the document that is being read. */
typedef struct {
    union {
        uint32_t values[MAX_VALUES];
        uint64_t wide_values[MAX_VALUES];
    } least;
    uint32_t spare[MAX_VALUES]; /* of BINNED: what bins have that are empty so far */
    uint32_t halves[HALVES_AT_ONCE];
    size_t waiting; /* of halves */
    int has_spare;  /* spare was begun */
    int is_full;    /* no bin is empty */
} Signature;

/* Values with those that fill up the last lanes. */
ALWAYS_INLINE size_t padded_values(const Signer *signer) {
    return (signer->values + LANES_ROOM - 1) / LANES_ROOM * LANES_ROOM;
}

/* Bytes of a value. */
ALWAYS_INLINE size_t value_bytes(const Signer *signer) { return signer->kind < AFFINE64 ? 4 : 8; }

void signature_begin(Signature *signature, const Signer *signer);

/* Take in hashes, in any order and as often as they come. */
void signature_take(Signature *signature, const Signer *signer, const uint64_t *hashes, size_t count);

/* Write the values, the greatest that there is where there was no hash. */
void signature_end(Signature *signature, const Signer *signer, void *values);

/* The signatures of sets of hashes, one after the other: those of set i end at ends[i]. */
void signatures_of(Signature *signature, const Signer *signer, const uint64_t *hashes, const uint64_t *ends,
                   size_t count, void *values);

void signature_choose(InstructionSet set);

#define SIGNATURE_KERNELS(set)                                                        \
    void signature_take_##set(Signature *, const Signer *, const uint64_t *, size_t); \
    void signature_finish_##set(Signature *, const Signer *);
SIGNATURE_KERNELS(portable)
SIGNATURE_KERNELS(fast)
SIGNATURE_KERNELS(wide)
#undef SIGNATURE_KERNELS

#endif
