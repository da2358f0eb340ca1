/* What was added to a catalog's log lately, read where it lies in LMDB's file, by one who knows all before it.

   Nothing here trusts LMDB's pages: every number of a page, offset and length is compared with what the file has before
   it is followed. What is found counts only with its own checksum, which is bound to its place, and while the writer
   cannot have begun to write over it. So this says what LMDB would say, or nothing. */
#ifndef FPSTORE_TAIL_H
#define FPSTORE_TAIL_H

#include "platform.h"

/* LMDB 0.9, 64 bits, mapped: `pages` of page_bytes each, of which that many lie in the mapping as a whole. */
typedef struct {
    const uint8_t *base;
    uint64_t pages, page_bytes;
} Tree;

/* A value of a tree; is_tree: it tells of a tree of its own. */
typedef struct {
    const uint8_t *data;
    uint64_t bytes;
    int is_tree;
} Value;

/* The number of the root page of the main tree, and how many values it has, by the meta page of the transaction. */
uint64_t tail_main_root(const Tree *tree, uint64_t transaction, uint64_t *entries);

/* The number of the last page that is used, by the same. */
uint64_t tail_last_page(const Tree *tree, uint64_t transaction);

/* Have a page of the file in the mapping, if the system can: there may be no room yet for one that was never written. */
void tail_touch(const Tree *tree, uint64_t page);

/* The value under a key of the tree with that root; whether there is one, and all on the way to it was in place. */
int tail_find(const Tree *tree, uint64_t root, const void *key, size_t key_bytes, Value *value);

/* The tree of that name in the main one: its root, and how many values it has; whether there is one. */
int tail_tree(const Tree *tree, uint64_t main_root, const void *name, size_t name_bytes, uint64_t *root,
              uint64_t *entries);

/* What additions change of a state. */
typedef struct {
    uint64_t next_change, max_id;
    int has_id; /* whether there is a max_id */
} Moved;

/* A text that states have in common: what is before, between and behind of what additions change. */
typedef struct {
    const uint8_t *data;
    size_t bytes;
} Piece;

/* Whether the text is a state of that transaction which differs from others of the same pieces (head, middle, end) in
   what additions change, which goes to moved. */
int tail_moved(const uint8_t *text, size_t bytes, const Piece pieces[3], uint64_t transaction, Moved *moved);

/* An addition as the log has it: its columns of 64-bit words lie one after the other. steps: instead of the column of ids,
   where these rise, how far each is from the one before, less 1, in step_bits each; else NULL. */
typedef struct {
    const uint8_t *columns, *steps;
    uint64_t words, first_id;
    unsigned step_bits;
} Added;

/* Whether record is an addition of so many columns, whose checksum, after `place`, is right. */
int tail_added(const uint8_t *record, size_t bytes, uint32_t place, unsigned columns, Added *added);

/* The ids of an addition that has steps, as many as there are words in a column; whether none is above 2^64 - 1. */
int tail_ids(const Added *added, uint64_t *ids);

#endif
