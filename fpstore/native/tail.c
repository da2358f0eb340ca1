#include "tail.h"

#include <sys/mman.h>

#include "crc32c.h"

/* Of a page: its number, flags and where its offsets end; of the offsets, 2 bytes each, where they begin. */
enum { PAGE_FLAGS = 10, PAGE_LOWER = 12, PAGE_OFFSETS = 16, IS_BRANCH = 1, IS_LEAF = 2, IS_OVERFLOW = 4 };
/* Of a node: the low and the high half of its value's length, flags, the key's length, the key. A branch has the number
   of its page in the first three. */
enum { NODE_HIGH = 2, NODE_FLAGS = 4, NODE_KEY_BYTES = 6, NODE_KEY = 8, HAS_PAGES = 1, IS_TREE = 2 };
/* Of what is told of a tree: how many values it has, the number of its root page. */
enum { TREE_ENTRIES = 32, TREE_ROOT = 40, TREE_BYTES = 48 };
/* Of a meta page: the main tree, and the number of the last page. */
enum { META_MAIN = 16 + 24 + TREE_BYTES, META_LAST_PAGE = META_MAIN + TREE_BYTES };
enum { MOST_LEVELS = 32 };
/* Of a record of the log: its checksum, kind, how many columns, the words of each. */
enum { RECORD_KIND = 4, RECORD_COLUMNS = 6, RECORD_WORDS = 8, RECORD_BYTES = 16, ADDED = 1, RISING_ADDED = 5 };
/* Of ids that rise: the first, and the bits of each step, a word each. */
enum { RISING_BYTES = 16, MOST_STEP_BITS = 16 };

/* The process that writes may change a page while it is read, so a number that was compared must not be read again: the
   compiler may not do that beyond this line. */
#define READ_ONCE(word) __asm__ volatile("" : "+r"(word))

static unsigned read16(const uint8_t *at) {
    uint16_t word;
    memcpy(&word, at, 2);
    unsigned value = word;
    READ_ONCE(value);
    return value;
}

static uint32_t read32(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, 4);
    READ_ONCE(word);
    return word;
}

static uint64_t read64(const uint8_t *at) {
    uint64_t word = load64(at);
    READ_ONCE(word);
    return word;
}

/* A node of a page: where it is, and how long its key is, which lies inside of the page. */
typedef struct {
    const uint8_t *at;
    uint64_t key_bytes;
} Node;

/* A page that says of itself that it is the one of this number, and what its flags should be; NULL for another. */
static const uint8_t *page_of(const Tree *tree, uint64_t number, unsigned flags) {
    if (number >= tree->pages) return NULL;
    const uint8_t *page = tree->base + number * tree->page_bytes;
    return read64(page) == number && read16(page + PAGE_FLAGS) == flags ? page : NULL;
}

uint64_t tail_main_root(const Tree *tree, uint64_t transaction, uint64_t *entries) {
    uint64_t number = transaction & 1;
    *entries = 0;
    if (number >= tree->pages) return UINT64_MAX;
    const uint8_t *main = tree->base + number * tree->page_bytes + META_MAIN;
    *entries = read64(main + TREE_ENTRIES);
    return read64(main + TREE_ROOT);
}

uint64_t tail_last_page(const Tree *tree, uint64_t transaction) {
    uint64_t number = transaction & 1;
    return number < tree->pages ? read64(tree->base + number * tree->page_bytes + META_LAST_PAGE) : 0;
}

#if defined(__linux__) && !defined(MADV_POPULATE_READ)
#define MADV_POPULATE_READ 22 /* of Linux 5.14; before it is refused, as what is asked for where there is no room */
#endif

void tail_touch(const Tree *tree, uint64_t page) {
#ifdef MADV_POPULATE_READ
    (void)madvise((void *)(uintptr_t)(tree->base + page * tree->page_bytes), tree->page_bytes, MADV_POPULATE_READ);
#else
    (void)tree;
    (void)page;
#endif
}

/* How many nodes a page has; none where it says what cannot be. */
static unsigned node_count(const Tree *tree, const uint8_t *page) {
    unsigned lower = read16(page + PAGE_LOWER);
    return lower >= PAGE_OFFSETS && lower <= tree->page_bytes ? (lower - PAGE_OFFSETS) / 2 : 0;
}

/* The node of this number; at is NULL where its key does not lie inside of the page. */
static Node node_of(const Tree *tree, const uint8_t *page, unsigned index) {
    uint64_t at = read16(page + PAGE_OFFSETS + 2 * index);
    if (at > tree->page_bytes - NODE_KEY) return (Node){NULL, 0};
    uint64_t key_bytes = read16(page + at + NODE_KEY_BYTES);
    return (Node){key_bytes <= tree->page_bytes - NODE_KEY - at ? page + at : NULL, key_bytes};
}

static int key_order(Node node, const void *key, size_t key_bytes) {
    size_t common = node.key_bytes < key_bytes ? node.key_bytes : key_bytes;
    int order = memcmp(node.at + NODE_KEY, key, common);
    return order != 0 ? order : (node.key_bytes > key_bytes) - (node.key_bytes < key_bytes);
}

/* How many of the nodes from `first` on, of count, have a key up to this one; -1 where one cannot be read. */
static int nodes_up_to(const Tree *tree, const uint8_t *page, unsigned first, unsigned count, const void *key,
                       size_t key_bytes) {
    unsigned low = first, high = count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        Node node = node_of(tree, page, middle);
        if (node.at == NULL) return -1;
        if (key_order(node, key, key_bytes) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return (int)(low - first);
}

static int value_of(const Tree *tree, const uint8_t *page, Node node, Value *value) {
    uint64_t bytes = read16(node.at) | (uint64_t)read16(node.at + NODE_HIGH) << 16;
    const uint8_t *data = node.at + NODE_KEY + node.key_bytes;
    uint64_t room = tree->page_bytes - (uint64_t)(data - page);
    unsigned flags = read16(node.at + NODE_FLAGS);
    if (flags & HAS_PAGES) {
        if (room < 8) return 0;
        uint64_t number = read64(data);
        const uint8_t *first = page_of(tree, number, IS_OVERFLOW);
        if (first == NULL) return 0;
        data = first + PAGE_OFFSETS;
        room = (tree->pages - number) * tree->page_bytes - PAGE_OFFSETS;
    }
    if (bytes > room) return 0;
    *value = (Value){data, bytes, (flags & IS_TREE) != 0};
    return 1;
}

int tail_find(const Tree *tree, uint64_t root, const void *key, size_t key_bytes, Value *value) {
    for (unsigned level = 0; level < MOST_LEVELS; level++) {
        const uint8_t *leaf = page_of(tree, root, IS_LEAF), *page = leaf ? leaf : page_of(tree, root, IS_BRANCH);
        if (page == NULL) return 0;
        unsigned count = node_count(tree, page);
        /* The first node of a branch leads to all below the second one's key, and has none. */
        int found = count > 0 ? nodes_up_to(tree, page, leaf ? 0 : 1, count, key, key_bytes) : -1;
        if (found < (leaf ? 1 : 0)) return 0;
        Node node = node_of(tree, page, (unsigned)found - (leaf ? 1 : 0));
        if (node.at == NULL) return 0;
        if (leaf) return key_order(node, key, key_bytes) == 0 && value_of(tree, page, node, value);
        root = read16(node.at) | (uint64_t)read16(node.at + NODE_HIGH) << 16 |
               (uint64_t)read16(node.at + NODE_FLAGS) << 32;
    }
    return 0;
}

int tail_tree(const Tree *tree, uint64_t main_root, const void *name, size_t name_bytes, uint64_t *root,
              uint64_t *entries) {
    Value value;
    if (!tail_find(tree, main_root, name, name_bytes, &value) || !value.is_tree || value.bytes != TREE_BYTES) return 0;
    *root = read64(value.data + TREE_ROOT);
    *entries = read64(value.data + TREE_ENTRIES);
    return 1;
}

typedef struct {
    const uint8_t *at, *end;
} Text;

static int skip(Text *text, const void *expected, size_t bytes) {
    if ((size_t)(text->end - text->at) < bytes || memcmp(text->at, expected, bytes) != 0) return 0;
    text->at += bytes;
    return 1;
}

static int skip_word(Text *text, const char *expected) { return skip(text, expected, strlen(expected)); }

/* A number in decimal digits, as JSON has it, that fits in 64 bits. */
static int take_number(Text *text, uint64_t *number) {
    const uint8_t *first = text->at;
    *number = 0;
    for (; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        unsigned digit = *text->at - '0';
        if (*number > (UINT64_MAX - digit) / 10) return 0;
        *number = 10 * *number + digit;
    }
    return text->at > first && (*first != '0' || text->at == first + 1);
}

int tail_moved(const uint8_t *data, size_t bytes, const Piece pieces[3], uint64_t transaction, Moved *moved) {
    Text text = {data, data + bytes};
    uint64_t written_by;
    if (!skip(&text, pieces[0].data, pieces[0].bytes) || !skip_word(&text, "\"max_id\":")) return 0;
    moved->max_id = 0;
    moved->has_id = !skip_word(&text, "null");
    if (moved->has_id && !take_number(&text, &moved->max_id)) return 0;
    if (!skip_word(&text, ",\"moving\":false,\"next_change\":") || !take_number(&text, &moved->next_change)) return 0;
    if (!skip_word(&text, ",") || !skip(&text, pieces[1].data, pieces[1].bytes)) return 0;
    if (!skip_word(&text, "\"transaction\":") || !take_number(&text, &written_by)) return 0;
    if (!skip_word(&text, ",") || !skip(&text, pieces[2].data, pieces[2].bytes)) return 0;
    return text.at == text.end && written_by == transaction && moved->next_change <= INT64_MAX;
}

/* What follows the header of an addition of one column, whose ids are kept as steps. */
static int rising_added(const uint8_t *columns, size_t bytes, uint64_t words, Added *added) {
    if (words == 0 || words > bytes / 8 || bytes - 8 * words < RISING_BYTES) return 0;
    const uint8_t *ids = columns + 8 * words;
    uint64_t bits = read64(ids + 8);
    if (bits > MOST_STEP_BITS || (bits & (bits - 1)) != 0) return 0; /* 0, or one of which a word has a whole number */
    if (bytes - 8 * words - RISING_BYTES != ((words - 1) * bits + 63) / 64 * 8) return 0;
    *added = (Added){columns, ids + RISING_BYTES, words, read64(ids), (unsigned)bits};
    return 1;
}

int tail_added(const uint8_t *record, size_t bytes, uint32_t place, unsigned columns, Added *added) {
    if (bytes < RECORD_BYTES || read32(record) != crc32c(place, record + RECORD_KIND, bytes - RECORD_KIND)) return 0;
    uint64_t words = read64(record + RECORD_WORDS);
    unsigned kind = read16(record + RECORD_KIND), stated = read16(record + RECORD_COLUMNS);
    size_t rest = bytes - RECORD_BYTES;
    if (kind == RISING_ADDED)
        return columns == 2 && stated == 1 && rising_added(record + RECORD_BYTES, rest, words, added);
    if (kind != ADDED || stated != columns) return 0;
    if (words > rest / 8 / columns || rest != 8 * columns * words) return 0;
    *added = (Added){record + RECORD_BYTES, NULL, words, 0, 0};
    return 1;
}

int tail_ids(const Added *added, uint64_t *ids) {
    uint64_t id = added->first_id, mask = ((uint64_t)1 << added->step_bits) - 1;
    for (uint64_t i = 0, bit = 0; i < added->words; i++, bit += added->step_bits) {
        ids[i] = id;
        if (i + 1 == added->words) break;
        uint64_t step = (added->step_bits ? load64(added->steps + bit / 64 * 8) >> bit % 64 & mask : 0) + 1;
        if (id > UINT64_MAX - step) return 0;
        id += step;
    }
    return 1;
}
