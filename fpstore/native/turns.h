/* Documents that are decided in turn: which earlier ones each is near, and to which of them it goes. */
#ifndef FPSTORE_TURNS_H
#define FPSTORE_TURNS_H

#include "alike.h"
#include "banded.h"
#include "listed.h"
#include "platform.h"

#define TURNS_NEW (-1) /* in place of a row: near nothing that came before, so that later ones may be near it */

#define TURNS_UNKNOWN UINT32_MAX
#define TURNS_TIES 5 /* the words of a wide fingerprint, and an id */

/* Why a run stopped: all are decided; it is not known to which row the document goes; features of a row are needed. */
typedef enum { TURNS_DONE = 0, TURNS_ASK = 1, TURNS_NEED = 2 } TurnsStop;

typedef struct {
    uint64_t row;
    uint32_t bits;
} Near;

typedef struct {
    const uint64_t *keys; /* of each its words; NULL where documents are near by what they share */
    uint64_t count;
    unsigned words; /* of a key */
    unsigned distance;
    Banded *banded; /* else NULL; bits are then values that differ */
    /* Of what came before the keys: the rows that key i is near are starts[i] to starts[i + 1], from the nearest on. */
    const uint64_t *starts;
    const uint16_t *bits;
    uint64_t found;
    const uint64_t *ties[TURNS_TIES]; /* of the rows found, and then of the keys; each can be NULL */
    int64_t *rows;                    /* the answer for each key: a row, the keys after those found, or TURNS_NEW */

    /* The keys so far that are near nothing. */
    uint64_t *leader_keys;
    uint32_t *leaders;
    uint64_t leader_count;

    /* Whether a key may be near one that comes before it among the keys, or after it; see turns_look. */
    uint8_t *is_near;
    uint8_t *has_earlier;

    int asks; /* stop at each key that is near something */

    /* Where documents are compared: the features of each row, hashes NULL where they are not known. */
    int compares;
    Shingles *shingles;
    uint8_t *is_listed;   /* the features of a row are in any order, and may be there more than once */
    uint8_t *is_silent;   /* the features of a row say nothing about it */
    Listed listed;        /* for documents of which some are so */
    uint64_t most;        /* so many near ones are looked at */
    uint64_t part, whole; /* the least share of the shingles of both that both have */
    double *measures;     /* of each key, to the row that it goes to */
    uint32_t *commons;    /* of each row found, how many shingles its key and it both have, or TURNS_UNKNOWN */
    uint32_t *eithers;    /* and how many one of them has; both as of listed_compare */
    uint64_t refused, cut_short;

    uint64_t at;    /* the key under way */
    uint64_t place; /* which of its near ones is looked at */
    int is_begun;
    Near *near, *scratch; /* room for all rows */
    uint64_t near_count;
} Turns;

/* Fill in is_near and has_earlier; takes time that grows with the square of the count, of few keys and of such as are
   alike in many bits. */
void turns_look(Turns *turns);

/* Compare each key with the row found that is the nearest, where the features of both are known. wanted, a mark for
   each row found: set for the next `more` where these two are not alike, and which may be looked at. */
void turns_foresee(Turns *turns, uint64_t more, uint8_t *wanted);

/* A key and a row found that is near it have the same hashes, but for `others` of the row in place of `own` of the key,
   whose features are known; so the row's need not be. 0 where these are too many to tell by. */
int turns_tell(Turns *turns, uint64_t key, uint64_t row, const Shingles *own, const Shingles *others);

/* Ask for the features of a key, of which something will be told soon. */
void turns_ask(const Turns *turns, uint64_t key);

/* Decide keys until all are, or it stops at turns->at, whose near ones are in turns->near from the nearest on. */
TurnsStop turns_run(Turns *turns);

/* The key at turns->at goes to a row, or is TURNS_NEW. */
void turns_answer(Turns *turns, int64_t row);

/* Which of count keys, of so many words each, are within distance of a key: their indexes, increasing; out has room for
   all. How many. */
uint64_t keys_near(const uint64_t *keys, uint64_t count, unsigned words, const uint64_t *key, unsigned distance,
                   uint32_t *out);

/* The same of the keys of one word before number i of them; halves: the lower 32 bits of each. */
uint64_t keys_near_earlier(const uint64_t *keys, const uint32_t *halves, uint64_t i, unsigned distance, uint32_t *out);

/* A key turned to the left by 0..63 bits. */
ALWAYS_INLINE uint64_t rotated(uint64_t key, unsigned bits) { return key << bits | key >> (-bits & 63); }

void turns_choose(InstructionSet set);

#define TURN_KERNELS(set)                                                                                         \
    uint64_t keys_near_##set(const uint64_t *keys, uint64_t count, unsigned words, const uint64_t *key,           \
                             unsigned distance, uint32_t *out);                                                   \
    uint64_t keys_near_earlier_##set(const uint64_t *keys, const uint32_t *halves, uint64_t i, unsigned distance, \
                                     uint32_t *out);                                                              \
    /* Compare the keys at increasing places, each with those before it; marks: 32 bits of each. */               \
    void look_together_##set(Turns *turns, const uint32_t *marks, const uint32_t *places, uint64_t count);
TURN_KERNELS(portable)
TURN_KERNELS(fast)
TURN_KERNELS(wide)

#endif
