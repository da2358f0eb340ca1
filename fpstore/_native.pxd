# All that the compiled modules know of the C kernels (fpstore/native): no other file declares any of it. A module that takes
# anything from here imports fpstore._native first, which fails where the kernels do not compute what they should.
from libc.errno cimport EINTR, errno
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from posix.types cimport off_t
from posix.unistd cimport pread

cdef extern from "platform.h" nogil:
    ctypedef enum Status:
        OK
        NO_MEMORY
        BAD_PAGE
        BAD_DIRECTORY
        BAD_BLOCK
        NOT_SORTED
        TOO_LARGE
        TOO_MANY
        TOO_WIDE
        NOT_BROUGHT
    ctypedef enum InstructionSet:
        SET_PORTABLE
        SET_FAST
        SET_WIDE
    InstructionSet fpstore_instruction_set()
    const char *const *instruction_set_features(InstructionSet set)
    void store64(uint8_t *at, uint64_t word)

cdef extern from "layout.h" nogil:
    enum: CODEC_GAP, CODEC_XOR, CODEC_RICE, CODEC_RAW
    enum: IDS_NONE, IDS_ONE, IDS_MANY
    enum: SYMBOLS, MAX_CODE_BITS, RICE_ESCAPE, GROUP_SLOTS, LINE_BYTES, FENCE_BYTES, OFFSET_BITS, MAX_BLOCK_KEYS, MAX_BLOCK_BITS
    enum: MIN_BLOCK_BYTES, MAX_BLOCK_BYTES
    enum: PAGE_BYTES, CRC_BYTES, FOOTER_BYTES, MIN_KEY_BITS, MAX_KEY_BITS, MAX_SLOT_BITS, MAX_RICE_BITS, SAMPLE_BITS, SAMPLE_BYTES
    enum: MAX_CODE_BYTES_PER_KEY

cdef extern from "known_answer.h" nogil:
    const char *known_answer_wrong()

cdef extern from "crc32c.h" nogil:
    uint32_t c_crc32c "crc32c"(uint32_t crc, const uint8_t *data, size_t size)
    void crc32c_pages(const uint8_t *data, size_t size, size_t page_bytes, uint32_t *out)

cdef extern from "tail.h" nogil:
    ctypedef struct Tree:
        const uint8_t *base
        uint64_t pages
        uint64_t page_bytes
    ctypedef struct Value:
        const uint8_t *data
        uint64_t bytes
    ctypedef struct Moved:
        uint64_t next_change
        uint64_t max_id
        int has_id
    ctypedef struct Piece:
        const uint8_t *data
        size_t bytes
    ctypedef struct Added:
        const uint8_t *columns
        const uint8_t *steps
        uint64_t words
    uint64_t tail_last_page(const Tree *tree, uint64_t transaction)
    void tail_touch(const Tree *tree, uint64_t page)
    uint64_t tail_main_root(const Tree *tree, uint64_t transaction, uint64_t *entries)
    int tail_find(const Tree *tree, uint64_t root, const void *key, size_t key_bytes, Value *value)
    int tail_tree(const Tree *tree, uint64_t main_root, const void *name, size_t name_bytes, uint64_t *root, uint64_t *entries)
    int tail_moved(const uint8_t *text, size_t bytes, const Piece *pieces, uint64_t transaction, Moved *moved)
    int tail_added(const uint8_t *record, size_t bytes, uint32_t place, unsigned columns, Added *added)
    int tail_ids(const Added *added, uint64_t *ids)

cdef extern from "permute.h" nogil:
    ctypedef struct Permutation:
        uint64_t prefix_mask
        unsigned prefix_bits
    void permutation_init(Permutation *permutation, uint64_t prefix_mask, unsigned key_bits)
    int keys_fit(const uint64_t *keys, uint64_t count, unsigned key_bits)
    void permute_keys(const Permutation *permutation, const uint64_t *values, uint64_t count, uint64_t *out)
    void unpermute_keys(const Permutation *permutation, const uint64_t *values, uint64_t count, uint64_t *out)

cdef extern from "encode.h" nogil:
    enum: PAYLOAD_SLACK
    ctypedef struct BitWriter:
        uint8_t *at
        uint64_t pending
        unsigned fill
    void put_bits(BitWriter *writer, uint64_t value, unsigned count)
    ctypedef struct Encoder:
        uint64_t key_count
        uint64_t payload_bits
        unsigned block_bytes
        uint8_t *fences
        uint64_t *keys_through
        uint64_t fence_count
    void encoder_init(Encoder *encoder, int codec, unsigned key_bits, unsigned slot_bits, unsigned rice_bits,
                      unsigned block_bytes, const uint8_t *code_lengths, const uint16_t *code_words, uint8_t *directory, uint64_t *ranks)
    void encoder_free(Encoder *encoder)
    Status encoder_push(Encoder *encoder, const uint64_t *keys, uint64_t count, uint8_t *out, uint64_t *written)
    Status encoder_finish(Encoder *encoder, uint8_t *out, uint64_t *written)
    ctypedef struct HistogramState "Histogram":
        unsigned slot_shift
        uint64_t count
        uint64_t last_key
        uint64_t gap_sum
        uint64_t gap[65]
        uint64_t xor_[65]
    Status histogram_add(HistogramState *histogram, const uint64_t *keys, uint64_t count, int codec)
    void rice_cost(const uint64_t *keys, uint64_t count, uint64_t *last_key, int *started, unsigned slot_shift,
                   unsigned rice_bits, uint64_t *bits)

cdef extern from "guard.h" nogil:
    ctypedef struct Guard:
        pass
    Guard *guard_add(const void *base, size_t bytes)
    void guard_remove(Guard *guard)
    int guard_changed(const Guard *guard)
    uint64_t guard_lost(const Guard *guard)
    void guard_ask(const Guard *guard)

cdef extern from "source.h" nogil:
    ctypedef struct Source:
        pass
    ctypedef struct SourceFile:
        Source *source
        uint64_t number
        uint64_t pages
        uint64_t *wanted
        uint64_t *brought
        uint64_t *failed
    ctypedef struct WantedPage:
        uint64_t file
        uint64_t page
    Source *source_new(int (*holds_lock)(), int (*is_stopped)())
    void source_free(Source *source)
    void source_close(Source *source)
    void source_forget(SourceFile *file)
    uint64_t source_take(Source *source, unsigned milliseconds, WantedPage *pages, uint64_t most)
    void source_tell(SourceFile *file, uint64_t first, uint64_t end, int brought)

cdef extern from "view.h" nogil:
    ctypedef struct Pages:
        const uint8_t *base
        uint64_t checked_bytes
        const uint8_t *checksums
        uint64_t checksums_bytes
        const uint8_t *roots
        uint64_t *seen
        uint64_t pages
        uint64_t unseen
        uint64_t bad_page_offset
        uint64_t asked
        SourceFile *source
    ctypedef struct Traces:
        const uint16_t *of_keys
        const uint32_t *starts
    ctypedef struct Table:
        Permutation permutation
        int codec
        unsigned key_bits
        unsigned slot_bits
        unsigned slot_shift
        unsigned fixed_bits
        unsigned block_bytes
        unsigned flips
        unsigned code_class
        Traces traces
        uint64_t payload_offset
        uint64_t payload_bits
        uint64_t directory_offset
        uint64_t fences_offset
        uint64_t fence_count
        uint16_t decode[4096]
    ctypedef struct Block:
        uint64_t start
        uint64_t end
        uint64_t previous
        uint16_t first_of_slot
    uint64_t pages_new(const Pages *pages, uint64_t first, uint64_t end)
    Status pages_check(Pages *pages, uint64_t first, uint64_t last)
    Status pages_warm(Pages *pages, uint64_t first, uint64_t end)
    void pages_ask(Pages *pages, uint64_t first, uint64_t end)
    Status sums_check(Pages *pages, uint64_t first, uint64_t end)
    void table_set_shifts(Table *table)
    int traces_note(const Table *table, const uint64_t *keys, uint64_t count, uint64_t first, uint64_t *last,
                    uint16_t *of_keys, uint32_t *starts)
    void decode_init(uint16_t *decode, const uint8_t *code_lengths)
    void tables_share_codes(Table **tables, unsigned count)

cdef extern from "decode.h" nogil:
    enum: CHUNK_ROOM
    ctypedef struct ChunkCode:
        pass
    ctypedef struct Chunk:
        ChunkCode code
    ctypedef struct Cursor:
        uint64_t slot
        uint64_t end_slot
        int alone
        Chunk *chunk
    void chunk_code_init(ChunkCode *code, const uint16_t *decode)
    Status cursor_decode(Pages *pages, const Table *table, Cursor *cursor, uint64_t *out, uint64_t room, uint64_t *count)

cdef extern from "match.h" nogil:
    ctypedef struct Match:
        uint64_t fingerprint
        uint32_t query
        uint32_t distance
    int match_order(const void *a, const void *b)
    uint64_t match_keep_room(uint64_t query_count, uint64_t keep)

cdef extern from "search.h" nogil:
    ctypedef struct Search:
        Pages *pages
        Table **tables
        unsigned table_count
        unsigned distance
        int first_only
        int done
        Match *matches
        uint64_t match_count
        uint64_t match_room
        uint64_t match_limit
        uint64_t match_most
        uint64_t keep
        uint64_t keep_room
        uint64_t query_count
        Match *bounds
        const Match *after
        uint64_t blocks_scanned
    void search_init(Search *search, Pages *pages, Table **tables, unsigned table_count, unsigned distance,
                     uint64_t query_count)
    Table *tables_with_flips(Table **tables, unsigned count, const unsigned *flips, Table **made)
    Status search_run(Search *search, const uint64_t *queries, uint64_t count, uint64_t first_index)
    uint64_t scan_keys(const uint64_t *keys, uint64_t count, uint64_t query, unsigned distance)
    void search_ask_code()
    uint64_t search_touch(Table **tables, unsigned table_count, const Pages *pages, const uint64_t *queries, uint64_t count)

cdef extern from "scan.h" nogil:
    ctypedef struct Scan:
        Search *search
        const uint64_t *queries
        uint64_t *limits
        uint64_t query_count
        uint64_t key_count
    Status scan_slots(Scan *scan, uint64_t first, uint64_t end, Chunk *chunk, uint64_t *room)
    void scan_end(Search *search)

cdef extern from "ids.h" nogil:
    ctypedef struct Ids:
        uint64_t ranks_offset
        uint64_t groups_offset
        uint64_t samples_offset
        uint64_t values_offset
        unsigned rank_width
        unsigned width
        unsigned kind
        uint64_t base
        uint64_t key_count
        uint64_t id_count
        uint64_t list_offset
        uint64_t list_count
    ctypedef struct IdWalk:
        uint64_t rank
    ctypedef struct IdSet:
        const uint64_t *ids
        uint64_t count
        uint64_t *filter
        unsigned filter_bits
    Status ids_of_key(Pages *pages, const Table *table, const Ids *ids, uint64_t key, uint64_t *first, uint64_t *count)
    Status table_key(Pages *pages, const Table *table, const Ids *ids, uint64_t rank, uint64_t *key)
    void id_set_fill(IdSet *set)
    Status ids_find(Pages *pages, const Ids *ids, const IdSet *set, uint64_t *next, uint64_t end, uint64_t room,
                    uint64_t *ranks, uint64_t *values, uint64_t *count)
    Status id_of_value(Pages *pages, const Ids *ids, uint64_t value, uint64_t *id)
    void places_of_ids(const uint64_t *listed, uint64_t listed_count, const uint64_t *ids, uint64_t count, int64_t *places)
    Status listed_places(Pages *pages, const Ids *ids, const uint64_t *wanted, uint64_t count, int64_t *places)
    Status ids_range(Pages *pages, const Ids *ids, uint64_t rank, uint64_t *first, uint64_t *count)
    Status packed_get(Pages *pages, uint64_t offset, unsigned width, uint64_t index, uint64_t *value)
    Status ids_walk(Pages *pages, const Ids *ids, IdWalk *walk, uint64_t end_rank, uint64_t room, uint64_t *ranks,
                    uint64_t *values, uint64_t *count)

cdef extern from "merge.h" nogil:
    ctypedef struct Items:
        const uint64_t *keys
        const uint64_t *ids
        uint64_t count
    uint64_t c_merge_keys "merge_keys"(const Items *a, const Items *b, uint64_t *keys)
    enum: GATHER_PAD
    uint64_t low_bits(unsigned count)
    void c_gather_all "gather_all"(Items *runs, uint64_t run_count, unsigned width, uint64_t *out)
    uint64_t c_keys_up_to "keys_up_to"(const uint64_t *keys, uint64_t count, uint64_t last)
    uint64_t c_merge_all "merge_all"(Items *runs, Items *pieces, uint64_t run_count, uint64_t *const *rooms,
                                     uint64_t *merged)
    uint64_t c_merge_room "merge_room"(uint64_t run_count)
    bint c_keys_increase "keys_increase"(const uint64_t *keys, uint64_t count)
    uint64_t c_merge_pairs "merge_pairs"(const Items *a, const Items *b, uint64_t *keys, uint64_t *ids)
    void c_mark_at_least "mark_at_least"(const Items *run, const uint64_t *keys, const uint64_t *least, uint64_t count,
                                         uint8_t *marks)
    void c_mark_pairs_at_least "mark_pairs_at_least"(const Items *pairs, const uint64_t *numbers, const Items *asked,
                                                     const uint64_t *least, uint8_t *marks)

cdef extern from "alike.h" nogil:
    ctypedef struct Shingles:
        const uint64_t *hashes
        const double *weights
        uint64_t count
    void c_common_counts "common_counts"(const Shingles *document, const Shingles *others, uint64_t count,
                                         uint64_t *counts)
    void c_common_products "common_products"(const Shingles *document, const Shingles *others, uint64_t count,
                                             uint64_t *highs, uint64_t *lows)

cdef extern from "listed.h" nogil:
    ctypedef struct Mark:
        pass
    ctypedef struct Listed:
        Mark *cells
        uint64_t *bits
        uint64_t room
        uint64_t secret
        const Shingles *document
    uint64_t listed_room(uint64_t most)

cdef extern from "passages.h" nogil:
    enum: MOST_PASSAGES
    ctypedef struct Passage:
        uint64_t first
        uint64_t end
        uint64_t other_first
        uint64_t other_end
    int64_t passages_apart(const uint8_t *text, uint64_t size, const uint8_t *other, uint64_t other_size, uint64_t tokens,
                           Passage *passages)

cdef extern from "banded.h" nogil:
    ctypedef struct Banded:
        uint64_t count
        uint64_t bands
        uint64_t words
        const uint64_t *keys
        const uint64_t *sketches
        unsigned width
        uint32_t far
        uint32_t most
        uint32_t *slots
        uint64_t slot_mask
        uint64_t *column
        uint32_t *firsts
        uint32_t *heads
        uint32_t *earlier
        uint32_t *askers
    uint32_t values_differing(const uint64_t *one, const uint64_t *other, uint64_t words, unsigned width, uint32_t far)

cdef extern from "band_index.h" nogil:
    enum: BAND_MOST_ROWS
    ctypedef struct CBandIndex "BandIndex":
        uint64_t count
        uint64_t bands
        uint64_t words
        unsigned width
        uint32_t far
    ctypedef struct BandNear:
        uint32_t query
        uint32_t row
        uint32_t differing
    ctypedef struct BandNears:
        BandNear *rows
        uint64_t count
        uint64_t room
    ctypedef struct BandAsked:
        uint64_t limit
        uint32_t most
    Status band_index_make(CBandIndex *index)
    void band_index_free(CBandIndex *index)
    Status band_index_add(CBandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count)
    Status band_index_near(CBandIndex *index, const uint64_t *keys, const uint64_t *sketches, uint64_t count,
                           const BandAsked *asked, uint64_t most_rows, BandNears *found, uint64_t *answered)
    uint64_t band_index_bytes(const CBandIndex *index)

cdef extern from "key_index.h" nogil:
    enum: KEY_MOST_DISTANCE, KEY_MOST_ROWS
    ctypedef struct CKeyIndex "KeyIndex":
        uint64_t count
        uint64_t secret
        unsigned distance
    ctypedef struct KeyMatch:
        uint64_t key
        uint32_t query
        uint32_t row
        uint32_t distance
    ctypedef struct KeyMatches:
        KeyMatch *rows
        uint64_t count
        uint64_t room
    Status key_index_make(CKeyIndex *index)
    void key_index_free(CKeyIndex *index)
    Status key_index_add(CKeyIndex *index, const uint64_t *keys, uint64_t count)
    Status key_index_near(const CKeyIndex *index, const uint64_t *queries, uint64_t count, uint64_t limit, KeyMatches *found)
    uint64_t key_index_bytes(const CKeyIndex *index)

cdef extern from "turns.h" nogil:
    enum: TURNS_NEW, TURNS_TIES
    ctypedef enum TurnsStop:
        TURNS_DONE
        TURNS_ASK
        TURNS_NEED
    ctypedef struct Near:
        uint64_t row
        uint32_t bits
    ctypedef struct CTurns "Turns":
        const uint64_t *keys
        uint64_t count
        unsigned words
        unsigned distance
        Banded *banded
        const uint64_t *starts
        const uint16_t *bits
        uint64_t found
        const uint64_t *ties[5]
        int64_t *rows
        uint64_t *leader_keys
        uint32_t *leaders
        uint8_t *is_near
        uint8_t *has_earlier
        int asks
        int compares
        Shingles *shingles
        uint8_t *is_listed
        uint8_t *is_silent
        Listed listed
        uint64_t most
        uint64_t part
        uint64_t whole
        double *measures
        uint32_t *commons
        uint32_t *eithers
        uint64_t refused
        uint64_t cut_short
        uint64_t at
        uint64_t place
        Near *near
        Near *scratch
        uint64_t near_count
    void turns_look(CTurns *turns)
    void turns_foresee(CTurns *turns, uint64_t more, uint8_t *wanted)
    void turns_ask(const CTurns *turns, uint64_t key)
    bint turns_tell(CTurns *turns, uint64_t key, uint64_t row, const Shingles *own, const Shingles *others)
    TurnsStop turns_run(CTurns *turns)
    void turns_answer(CTurns *turns, int64_t row)

cdef extern from "large.h" nogil:
    void large_pages(void *start, uint64_t bytes)
    void large_populate(void *start, uint64_t bytes)

cdef extern from "spilled.h" nogil:
    enum:
        SPILLED_GROUP
        SPILLED_SLACK

    uint64_t spilled_most(uint64_t count, unsigned group)
    uint64_t spilled_pack(const uint64_t *keys, uint64_t count, unsigned group, uint8_t *out)
    uint64_t spilled_unpack(const uint8_t *data, uint64_t bytes, uint64_t *keys, uint64_t room, uint64_t *used)


cdef extern from "sort.h" nogil:
    enum: PART_KEYS
    enum: SORT_ROOM_KEYS
    enum: SPLIT_GROUPS
    ctypedef struct SortRoom:
        uint64_t *keys
        uint64_t room_keys
    ctypedef struct SortedOut:
        uint64_t *keys
        uint64_t count
    void sort_range(uint64_t *keys, uint64_t count, unsigned width, SortRoom *room, SortedOut *out)
    uint64_t c_split_keys "split_keys"(uint64_t *keys, uint64_t count)
    uint64_t c_sort_permuted "sort_permuted"(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count,
                                             uint64_t *keys, SortRoom *room)
    void sort_count(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *counts)
    void sort_deal(const Permutation *permutation, const uint64_t *fingerprints, uint64_t count, uint64_t *keys,
                   uint64_t *at)
    uint64_t sort_groups(const Permutation *permutation, const uint64_t *ends, uint64_t first, uint64_t end,
                         uint64_t *keys, SortRoom *room)

cdef extern from "pairs.h" nogil:
    enum: MAX_LANES, QUAD, NEIGHBOUR_STEP, JOIN_ROOM, KEYS_PAD, ROW_BITS
    uint64_t window_of(uint64_t key, unsigned bits)
    ctypedef struct Found:
        Table **tables
        unsigned table
        unsigned distance
        int is_query
        uint64_t *first
        uint64_t *second
        uint8_t *bits
        uint64_t room
        uint64_t found
        uint64_t work
        int done
        int repeated
    ctypedef struct NeighbourJoin:
        Found found
        const uint64_t *keys
        const uint32_t *folds
        uint64_t count
        unsigned window_shift
        uint64_t i
        uint64_t step
        uint64_t near
    ctypedef struct QueryJoinState "QueryJoin":
        Found found
        const uint64_t *queries
        const uint64_t *keys
        const uint32_t *starts
        uint64_t query_count
        uint64_t first_window
        uint64_t flips
        unsigned window_shift
    ctypedef struct Tile:
        pass
    ctypedef struct Flip:
        uint32_t inside
        uint32_t highest
        uint64_t outside
        unsigned low_bit
    ctypedef struct FlipJoinState "FlipJoin":
        Found found
        const uint64_t *keys
        const uint32_t *starts
        unsigned index_bits
        const Flip *flips
        unsigned flip_count
        Tile *tile
        Tile *partner
    Flip flip_of(uint64_t mask)
    void fold_keys(const uint64_t *keys, uint64_t count, uint32_t *folds)
    void starts_append(uint32_t *starts, uint64_t *last, const uint64_t *keys, uint64_t count, uint64_t position,
                       unsigned window_shift, uint64_t first_window)
    void neighbour_join_run(NeighbourJoin *join)
    void query_join_run(QueryJoinState *join)
    void flip_join_run(FlipJoinState *join)

cdef extern from "pending.h" nogil:
    ctypedef struct Pending:
        unsigned max_distance
        uint32_t capacity
        uint64_t ready_bytes
    ctypedef struct PendingMatch:
        Match match
    ctypedef struct PendingSearch:
        const Pending *pending
        unsigned distance
        uint32_t end
        PendingMatch *matches
        uint64_t match_count
        uint64_t match_room
        uint64_t row_count
        uint64_t match_most
        uint64_t keep
        uint64_t keep_room
        uint64_t query_count
        Match *bounds
        const Match *after
    ctypedef struct PendingWalk:
        uint64_t index
        uint32_t row
    Status pending_init(Pending *pending, const uint64_t *masks, const unsigned *flips, unsigned table_count,
                        unsigned key_bits, unsigned max_distance, int with_ids,
                        uint32_t capacity, uint64_t secret)
    void pending_free(Pending *pending)
    uint32_t pending_count(const Pending *pending)
    uint64_t pending_last_position(const Pending *pending)
    uint32_t pending_rows_before(const Pending *pending, uint64_t position)
    void pending_append(Pending *pending, const uint64_t *keys, const uint64_t *ids, uint32_t count, uint64_t position,
                        uint64_t live_since)
    uint32_t pending_indexed(const Pending *pending)
    bint pending_is_unready(const Pending *pending)
    void pending_make_ready(Pending *pending)
    void pending_index(Pending *pending, uint32_t most)
    void pending_copy(Pending *pending, const Pending *source, uint32_t first, uint32_t end)
    void pending_search_init(PendingSearch *search, const Pending *pending, unsigned distance, uint32_t end)
    Status pending_search(PendingSearch *search, const uint64_t *queries, uint64_t count)
    void pending_fill(const PendingSearch *search, int64_t *query, uint64_t *fingerprint, uint16_t *distance, uint64_t *ids,
                      uint64_t *positions)
    uint64_t pending_walk_rows(const Pending *pending, const uint32_t *entries, uint64_t count, uint32_t end,
                               PendingWalk *walk, uint64_t room, int64_t *which, uint64_t *ids, uint64_t *positions)
    void pending_least_ids(const Pending *pending, const uint32_t *entries, uint64_t count, uint32_t end, uint64_t *ids)
    uint32_t pending_entry_number(const Pending *pending, const PendingMatch *match)
    void pending_rows(const Pending *pending, uint32_t first, uint32_t end, uint64_t *keys, uint64_t *ids,
                      uint64_t *positions)

cdef extern from "single.h" nogil:
    ctypedef struct Part:
        Pages *pages
        Table **tables
        unsigned table_count
        const Ids *ids
        uint64_t position, key_count
    void parts_make_several(Part *parts, unsigned count)
    void parts_free_several(Part *parts, unsigned count)
    unsigned part_together(const Part *part)
    void part_ask(const Part *part)
    ctypedef struct FoundRow:
        uint64_t fingerprint
        uint64_t id
        uint64_t position
        uint32_t distance
    ctypedef struct Sources:
        const Part *parts
        unsigned part_count
        const Pending *pending
        uint32_t pending_end
    ctypedef struct FoundRows:
        FoundRow *rows
        uint64_t count
        uint64_t room
        uint64_t most
        uint64_t keep

    void found_init(FoundRows *found, uint64_t most, uint64_t keep)
    void found_free(FoundRows *found)
    ctypedef struct ScanRoom:
        Chunk *chunk
        uint64_t *room

    ctypedef struct NotedCode:
        pass
    NotedCode code_before_scan, code_from_scan
    void code_note(NotedCode *noted, const void *code, unsigned lines)
    void code_ask(const NotedCode *noted)
    void single_note_code()
    Status single_search(const Sources *sources, uint64_t query, unsigned distance, ScanRoom *scan, FoundRows *found)
    Status single_any(const Sources *sources, uint64_t query, unsigned distance, ScanRoom *scan, int *any)
    void single_order(FoundRows *found)

cdef extern from "sketches.h" nogil:
    ctypedef struct Bands:
        uint32_t bands
        const uint64_t *bases
        const uint64_t *sizes
    ctypedef struct Sketches:
        uint32_t values
        uint32_t bits
        uint32_t words
        const float *estimates
    void band_hashes_of_32(const uint32_t *signatures, uint64_t count, uint64_t values, uint32_t bands,
                           uint32_t rows_per_band, uint64_t *hashes)
    void band_hashes_of_64(const uint64_t *signatures, uint64_t count, uint64_t values, uint32_t bands,
                           uint32_t rows_per_band, uint64_t *hashes)
    void band_keys_of_hashes(const uint64_t *hashes, uint64_t count, const Bands *bands, uint64_t *keys)
    void sketches_of_32(const uint32_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches)
    void sketches_of_64(const uint64_t *signatures, uint64_t count, const Sketches *shape, uint64_t *sketches)
    float sketches_alike(const Sketches *shape, const uint64_t *one, const uint8_t *other)

cdef extern from "similar.h" nogil:
    ctypedef struct BandPart:
        Pages *pages
        const Table *table
        const Ids *ids
        uint64_t position
    ctypedef struct SketchFile:
        Pages *pages
        uint64_t count
        uint64_t base
        uint64_t last
        uint64_t handles_offset
        uint64_t sketches_offset
        unsigned handle_bytes
        unsigned listed
    ctypedef struct BandRow:
        uint64_t id
        uint64_t position
        uint32_t key
    ctypedef struct BandRows:
        BandRow *rows
        uint64_t count
        uint64_t room
        uint64_t most
    ctypedef struct Candidate:
        uint64_t id
        uint32_t query
        float similarity
        uint16_t shared
    Status band_rows_of_part(const BandPart *part, const uint64_t *keys, uint64_t count, BandRows *found)
    Status band_rows_of_pending(const Pending *pending, uint32_t end, const uint64_t *keys, uint64_t count, BandRows *found)
    Status candidates_of(BandRows *found, uint32_t bands, uint64_t query_count, float unknown, Candidate *candidates,
                         uint64_t *count)
    Status candidates_estimate(const SketchFile *file, const Sketches *shape, const uint64_t *sketches,
                               const int64_t *places, const uint8_t *masked, Candidate *candidates, uint64_t count)
    void candidates_order(Candidate *candidates, uint64_t count)

cdef extern from "json_lines.h" nogil:
    ctypedef struct Packed:
        uint8_t *bytes
        uint64_t used
        uint64_t room
        uint64_t expected
        uint64_t *ends
    ctypedef struct LineRows:
        Packed texts
        Packed names
        Packed lines
        const uint8_t *block
        uint64_t first
        uint8_t *may_have_tags
        uint64_t *numbers
        uint64_t count
    ctypedef struct LineFields:
        const uint8_t *text
        uint64_t text_size
        const uint8_t *name
        uint64_t name_size
        bint has_name
        const uint8_t *source
        uint64_t source_size
    ctypedef enum LinesStop:
        LINES_END
        LINES_CUT
        LINES_OTHER
    ctypedef struct LinesPlace:
        uint64_t number
        uint64_t blank
        uint64_t at
        bint is_begun
        LinesStop stopped
    Status lines_read(const LineFields *fields, const uint8_t *block, uint64_t size, bint is_last, LinesPlace *place,
                      LineRows *rows)
    Status lines_settle(LineRows *rows)
    Status lines_add(LineRows *rows, const uint8_t *text, uint64_t text_size, const uint8_t *name, uint64_t name_size,
                     const uint8_t *line, uint64_t line_size)
    void lines_free(LineRows *rows)

cdef extern from "packed.h" nogil:
    void packed_gather(const uint8_t *data, const int64_t *offsets, const int64_t *indexes, uint64_t count, uint8_t *out)
    ctypedef struct PackedColumn:
        const uint8_t *data
        const int64_t *offsets
    void packed_lines(const PackedColumn *columns, uint64_t column_count, uint64_t count, uint8_t *out)
    int packed_are_plain(const uint8_t *data, uint64_t size)
    enum:
        MOST_DIGITS
    const double MOST_MEASURE
    uint64_t packed_integer(uint64_t number, uint8_t *out)
    uint64_t packed_measure(double measure, uint8_t *out)
    void packed_digests(const uint8_t *names, const int64_t *name_offsets, const uint8_t *values,
                        const int64_t *value_offsets, uint64_t count, uint64_t seed, uint8_t *out)

cdef extern from "text_unicode.h" nogil:
    enum: IS_WORD, IS_SPACE, JOINS, NFKC_CHANGES, FOLD_CHANGES
    ctypedef struct UnicodeColumn:
        const uint32_t *items
        size_t count
    ctypedef struct UnicodeColumns:
        UnicodeColumn word_ranges
        UnicodeColumn space_ranges
        UnicodeColumn mark_ranges
        UnicodeColumn dense_ranges
        UnicodeColumn combining_ranges
        UnicodeColumn combining_classes
        UnicodeColumn decomposed_codes
        UnicodeColumn decomposed_starts
        UnicodeColumn decomposed_points
        UnicodeColumn folded_codes
        UnicodeColumn folded_starts
        UnicodeColumn folded_points
        UnicodeColumn composed_firsts
        UnicodeColumn composed_seconds
        UnicodeColumn composed_points

cdef extern from "text_tokens.h" nogil:
    enum: MAX_SHINGLE
    enum: WORDS, CHARACTERS, SEPARATED, MIXED, WHOLE
    ctypedef struct TokenSteps:
        int kind
        uint8_t flags
    ctypedef struct Tokens:
        uint8_t *bytes
        uint32_t *starts
        size_t used
        size_t count
    bint is_dense_token(const Tokens *tokens, size_t token)
    void text_load(const UnicodeColumns *columns)

cdef extern from "text_given.h" nogil:
    ctypedef struct Given:
        const void *data
        size_t size
        unsigned width

cdef extern from "text_hash.h" nogil:
    uint64_t c_xxh3 "xxh3"(const uint8_t *data, size_t size)
    uint64_t c_xxh64 "xxh64"(const uint8_t *data, size_t size)
    uint64_t word_of(uint64_t hash, unsigned word)

cdef extern from "text_minhash.h" nogil:
    enum: WORD_BITS, MAX_WORDS
    ctypedef struct Permutations:
        pass
    void permutations_seed(Permutations *permutations, uint64_t seed)

cdef extern from "text_signature.h" nogil:
    enum: MAX_VALUES, LANES_ROOM
    enum: BINNED, AFFINE32, RENSA, AFFINE64, LEGACY
    ctypedef struct Signer:
        int kind
        uint32_t values
        const uint32_t *factors
        const uint32_t *terms
        const uint64_t *wide_factors
        const uint64_t *wide_terms
    ctypedef struct Signature:
        pass
    void signatures_of(Signature *signature, const Signer *signer, const uint64_t *hashes, const uint64_t *ends,
                       size_t count, void *values)

cdef extern from "text_simhash.h" nogil:
    enum: WEIGHT_ONE
    enum: SIMHASH, MINHASH_1BIT, MINHASH
    enum: FREQUENCY, PRESENCE, CAPPED, LOGARITHM, IDF
    enum: XXH3, XXH3_SEEDED, XXH64, XXH64_SEEDED, MURMUR3, MD5, MD5_HEAD, SHA1, SHA256, BLAKE2B, FNV1, FNV1A, FXHASH
    ctypedef struct Cell:
        uint64_t hash
        uint64_t value
    ctypedef struct CellTable:
        Cell *cells
        size_t size
        size_t count
    ctypedef struct Steps:
        TokenSteps tokens
        unsigned shingle
        unsigned dense_shingle
        int hash
        uint64_t seed
        int tie
        int weights
        const CellTable *idf
        uint64_t idf_unseen
        int sketch
        unsigned words
        Permutations permutations
        Signer signer
    ctypedef struct Sums:
        pass
    ctypedef struct Kept:
        uint64_t *hashes
        uint64_t used
    ctypedef struct Document:
        Tokens tokens
        CellTable shingles
        Kept kept
    uint64_t cell_secret
    Cell *shingle_cell(const CellTable *table, uint64_t hash)
    Status cells_clear(CellTable *table, size_t size)
    uint64_t hash_slice(const Steps *steps, const uint8_t *at, size_t size)
    int64_t weight_of(const Steps *steps, uint64_t hash, uint64_t count)
    void sums_clear(Sums *sums, unsigned words)
    void add_weighted(Sums *sums, uint64_t hash, int64_t weight, unsigned words)
    uint64_t signs(const Sums *sums, int tie, unsigned word)
    void document_free(Document *document)
    ctypedef struct Measures:
        uint64_t *fingerprints
        uint32_t *token_counts
        uint8_t *outweighed
        uint32_t *distinct_counts
        double *unseen
        uint64_t *ends
    Status documents_measure(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                             const Measures *found)
    Status documents_sign(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                          void *values, uint32_t *token_counts, uint64_t *ends)
    Status document_tokens(Document *document, const TokenSteps *steps, const Given *given)
    ctypedef struct Shingled:
        uint64_t *hashes
        double *weights
        uint64_t *ends
        uint64_t used
        uint64_t count
    Status documents_shingles(Document *document, const Steps *steps, const Given *texts, size_t count, size_t *at,
                              Shingled *shingled)
    Status hashes_shingles(const Steps *steps, const Given *kept, size_t count, size_t *at, Shingled *shingled)
    void shingled_free(Shingled *shingled)


# Cython imports the modules of the extension types that a cimported module declares, used or not: this one is there for that.
cdef class KernelsAreRight:
    pass

cdef extern from "names.h" nogil:
    enum: NAME_BYTES, NAME_GROUP, NAME_BLOCK, NAME_BLOCK_BYTES, NAME_SYMBOLS, NAME_SLACK, NAME_LINE_BYTES, NAME_LINE_NAMES, NAME_LINE_BITS
    ctypedef struct Names:
        const uint8_t *data
        const int64_t *ends
        uint64_t count
    uint64_t name_hash(const uint8_t *name, uint64_t bytes, uint64_t key)
    void name_hashes(const Names *names, uint64_t key, uint64_t *hashes)
    int name_compare(const uint8_t *one, uint64_t one_bytes, const uint8_t *other, uint64_t other_bytes)
    ctypedef struct NameCoder:
        pass
    NameCoder *name_coder_new()
    void name_coder_free(NameCoder *coder)
    uint64_t name_block_count(const Names *names, uint64_t first)
    uint64_t name_block_room(const Names *names, uint64_t first, uint64_t count)
    uint64_t name_block_write(NameCoder *coder, const Names *names, uint64_t first, uint64_t count, uint8_t *out)
    ctypedef struct NameBlock:
        uint32_t count
    Status name_block_read(const NameBlock *block, uint32_t index, uint8_t *name, uint32_t *bytes)
    ctypedef struct Bytes:
        uint8_t *data
        uint64_t used
        uint64_t room
    Status bytes_reserve(Bytes *bytes, uint64_t more)
    Status name_block_all(const NameBlock *block, Bytes *out, int64_t *ends)
    ctypedef struct NameFile:
        uint64_t count
        uint64_t block_count
        uint64_t line_count
        uint64_t handle_base
        unsigned handle_width
        unsigned rank_width
        uint64_t blocks_offset
        uint64_t blocks_end
        uint64_t directory_offset
        uint64_t filter_offset
        uint64_t handles_offset
        uint64_t order_offset
    Status name_file_block(Pages *pages, const NameFile *file, uint64_t index, NameBlock *block, uint64_t *first_rank,
                           uint64_t *end_rank)
    Status name_file_locate(Pages *pages, const NameFile *file, uint64_t rank, uint64_t *index)
    Status name_file_may_have(Pages *pages, const NameFile *file, uint64_t hash, int *found)
    Status name_file_find(Pages *pages, const NameFile *file, const uint8_t *name, uint64_t bytes, uint8_t *scratch,
                          NameBlock *block, uint64_t *rank, int *found)
    void name_file_expect(const Pages *pages, const NameFile *file, uint64_t hash)
    Status name_file_rank(Pages *pages, const NameFile *file, uint64_t handle, uint64_t *rank, int *found)
    Status name_file_handle(Pages *pages, const NameFile *file, uint64_t rank, uint64_t *handle)
    Status names_sort(const Names *names, uint32_t *order, uint64_t count)
    void names_part(const Names *names, const Names *bounds, uint8_t *parts)
    Status names_gather(const Names *names, const uint32_t *order, uint64_t first, uint64_t count, Bytes *data,
                        int64_t *ends, uint64_t *gathered)
    ctypedef struct NameSource:
        Names names
        const uint64_t *values
        uint64_t at
        int ended
    ctypedef struct NameLast:
        const uint8_t *bytes
        uint64_t count
        uint64_t value
    Status names_merge(NameSource *sources, uint64_t count, int once, NameLast last, Bytes *out, int64_t *ends,
                       uint64_t *values, uint64_t *merged)

cdef extern from "codes.h" nogil:
    enum: MAX_CODE_WORDS
    enum: MAX_ENTRY_BITS
    enum: MAX_TAG_BITS
    enum: VISIT_CODES
    enum: MAX_LEVELS
    uint64_t NO_PATTERNS
    ctypedef struct CodeGuide:
        uint64_t searches
        uint32_t *ranges
    ctypedef struct CodeTable:
        uint64_t *mask
        unsigned slot_bits
        unsigned tag_bits
        unsigned flips
        int in_order
        uint64_t starts_offset
        uint64_t entries_offset
        const uint64_t *patterns
        uint64_t pattern_count
        uint64_t *level_patterns
    ctypedef struct Codes:
        unsigned words
        unsigned table_count
        unsigned rank_bits
        unsigned start_bytes
        uint64_t count
        uint64_t codes_offset
        CodeTable *tables
        CodeGuide *guide
        unsigned highest
    ctypedef struct HeldCodes:
        const uint64_t *codes
        const uint64_t *ids
        unsigned words
    ctypedef struct CodeMatches:
        Match *found
        uint64_t count
        uint64_t room
        uint64_t most
        int first_only
        int scanned
        uint64_t keep
        uint64_t begin
        const Match *after
        const HeldCodes *rows
    uint64_t code_pattern_count(unsigned slot_bits, unsigned flips, uint64_t most)
    void code_patterns(unsigned slot_bits, unsigned flips, uint64_t *patterns)
    int codes_are_levelled(Codes *codes)
    Status codes_search(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                        CodeMatches *matches)
    Status codes_scan(Pages *pages, const Codes *codes, const uint64_t *query, uint32_t index, unsigned distance,
                      CodeMatches *matches)
    Status codes_near(const uint64_t *codes, uint64_t first, uint64_t count, unsigned words, const uint64_t *query,
                      uint32_t index, unsigned distance, CodeMatches *matches)
    void c_codes_keys "codes_keys"(const uint64_t *codes, uint64_t count, unsigned words, const uint64_t *mask,
                                   uint64_t *keys)

cdef extern from "codes_rows.h" nogil:
    ctypedef struct CodePart:
        Pages *pages
        const Codes *codes
        const Ids *ids
    ctypedef struct CodeRow:
        uint64_t *code
        uint64_t id
        uint32_t distance
    ctypedef struct CodeRows:
        CodeRow *rows
        uint64_t count
        uint64_t room
        uint64_t most
        uint64_t keep
        int scan
        int scanned
    Status codes_rows(const CodePart *parts, unsigned part_count, const uint64_t *query, unsigned distance, CodeRows *found)
    Status codes_any(const CodePart *parts, unsigned part_count, const uint64_t *query, unsigned distance, int *any)


cdef extern from "interpreter.h" nogil:
    void interpreter_begins()
    void interpreter_ends()
    void interpreter_wait_at_most(uint64_t nanoseconds)
    void interpreter_comes()
    void interpreter_left()


cdef enum:
    CUT_SHORT = -1  # a file ends before that


cdef inline int read_at(int fd, uint8_t *out, size_t size, uint64_t offset) noexcept nogil:
    # Read bytes of a file: 0, the error of the system, or CUT_SHORT.
    cdef ssize_t count
    while size > 0:
        count = pread(fd, out, size, <off_t>offset)
        if count < 0 and errno != EINTR:
            return errno
        if count == 0:
            return CUT_SHORT
        if count > 0:
            out += count
            offset += <uint64_t>count
            size -= <size_t>count
    return 0
