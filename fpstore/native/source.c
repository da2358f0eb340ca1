/* Who waits for pages, and who brings them: a queue, and two conditions. */
#include "source.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

enum {
    FIRST_ROOM = 1024,
    FEWEST_TAKEN = 16,       /* neighbours of one request, most often */
    RUN_BEGINS = 4,          /* blocks that end in a second page are no run yet */
    LONGEST_AHEAD = 8,       /* 2^8 pages, 1 MiB */
    LOOK_MILLISECONDS = 100, /* how often who waits asks whether it still should */
    STOP_MILLISECONDS = 300,
};

struct Source {
    pthread_mutex_t lock;
    pthread_cond_t asked, told;
    WantedPage *queue; /* a ring of `room`, a power of two */
    uint64_t first, count, room;
    unsigned idle; /* who waits in source_take */
    int closed;
    struct timespec stopped; /* until when nobody waits, so that all threads of a call that was stopped end it */
    int (*holds_lock)(void);
    int (*is_stopped)(void);
};

static struct timespec in_milliseconds(unsigned milliseconds) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += milliseconds / 1000;
    until.tv_nsec += 1000000L * (milliseconds % 1000);
    if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
    return until;
}

static int is_before(struct timespec one, struct timespec other) {
    return one.tv_sec < other.tv_sec || (one.tv_sec == other.tv_sec && one.tv_nsec < other.tv_nsec);
}

Source *source_new(int (*holds_lock)(void), int (*is_stopped)(void)) {
    Source *source = calloc(1, sizeof(Source));
    if (source == NULL) return NULL;
    source->queue = malloc(FIRST_ROOM * sizeof(WantedPage));
    if (source->queue == NULL) {
        free(source);
        return NULL;
    }
    source->room = FIRST_ROOM;
    source->holds_lock = holds_lock;
    source->is_stopped = is_stopped;
    source->stopped = (struct timespec){0, 0};
    pthread_condattr_t steady;
    pthread_mutex_init(&source->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&source->asked, &steady);
    pthread_cond_init(&source->told, &steady);
    pthread_condattr_destroy(&steady);
    return source;
}

void source_free(Source *source) {
    pthread_cond_destroy(&source->told);
    pthread_cond_destroy(&source->asked);
    pthread_mutex_destroy(&source->lock);
    free(source->queue);
    free(source);
}

void source_close(Source *source) {
    pthread_mutex_lock(&source->lock);
    source->closed = 1;
    pthread_cond_broadcast(&source->asked);
    pthread_cond_broadcast(&source->told);
    pthread_mutex_unlock(&source->lock);
}

static int bit_of(const uint64_t *bits, uint64_t index) { return (bits[index >> 6] >> (index & 63)) & 1; }

static void bit_set(uint64_t *bits, uint64_t index) { bits[index >> 6] |= (uint64_t)1 << (index & 63); }

static void bit_clear(uint64_t *bits, uint64_t index) { bits[index >> 6] &= ~((uint64_t)1 << (index & 63)); }

/* With the lock. 0 without memory. */
static int want(SourceFile *file, uint64_t page) {
    Source *source = file->source;
    if (bit_of(file->wanted, page)) return 1;
    if (source->count == source->room) {
        WantedPage *queue = malloc(2 * source->room * sizeof(WantedPage));
        if (queue == NULL) return 0;
        for (uint64_t i = 0; i < source->count; i++) queue[i] = source->queue[(source->first + i) & (source->room - 1)];
        free(source->queue);
        source->queue = queue;
        source->first = 0;
        source->room *= 2;
    }
    source->queue[(source->first + source->count++) & (source->room - 1)] = (WantedPage){file->number, page};
    bit_set(file->wanted, page);
    bit_clear(file->failed, page);
    pthread_cond_signal(&source->asked);
    return 1;
}

/* With the lock: a page is waited for. What follows a run of such pages will be, too. */
static void want_ahead(SourceFile *file, uint64_t page) {
    file->run = page == file->next ? file->run + 1 : 0;
    file->next = page + 1;
    if (file->run < RUN_BEGINS) return;
    unsigned power = file->run - RUN_BEGINS + 2;
    uint64_t end = page + 1 + ((uint64_t)1 << (power < LONGEST_AHEAD ? power : LONGEST_AHEAD));
    if (end > file->pages) end = file->pages;
    for (uint64_t ahead = page + 1; ahead < end; ahead++)
        if (!bit_of(file->brought, ahead)) want(file, ahead);
    file->next = end; /* where it waits next if it goes on so */
}

/* With the lock: until the page is told of, the source is closed, or nobody is to wait any longer. */
static void wait_for(SourceFile *file, uint64_t page) {
    Source *source = file->source;
    while (bit_of(file->wanted, page) && !source->closed && !is_before(in_milliseconds(0), source->stopped)) {
        const struct timespec until = in_milliseconds(LOOK_MILLISECONDS);
        if (pthread_cond_timedwait(&source->told, &source->lock, &until) != ETIMEDOUT || source->is_stopped == NULL)
            continue;
        pthread_mutex_unlock(&source->lock); /* it asks for the lock that others hold while they ask for this one */
        const int stopped = source->is_stopped();
        pthread_mutex_lock(&source->lock);
        if (!stopped) continue;
        source->stopped = in_milliseconds(STOP_MILLISECONDS);
        pthread_cond_broadcast(&source->told);
    }
}

Status source_fetch(SourceFile *file, uint64_t page) {
    Source *source = file->source;
    if (source->holds_lock != NULL && source->holds_lock()) return NOT_BROUGHT;
    Status status = OK;
    pthread_mutex_lock(&source->lock);
    if (bit_of(file->brought, page)) {
        bit_clear(file->brought, page); /* it came a moment ago; who comes once more had no use for it */
    } else if (!want(file, page)) {
        status = NO_MEMORY;
    } else {
        want_ahead(file, page);
        wait_for(file, page);
        if (bit_of(file->wanted, page) || bit_of(file->failed, page)) status = NOT_BROUGHT;
    }
    pthread_mutex_unlock(&source->lock);
    return status;
}

void source_ask(SourceFile *file, uint64_t page) {
    Source *source = file->source;
    pthread_mutex_lock(&source->lock);
    if (!source->closed && !bit_of(file->brought, page)) (void)want(file, page);
    pthread_mutex_unlock(&source->lock);
}

void source_forget(SourceFile *file) {
    pthread_mutex_lock(&file->source->lock);
    memset(file->brought, 0, (file->pages / 64 + 1) * sizeof(uint64_t));
    pthread_mutex_unlock(&file->source->lock);
}

uint64_t source_take(Source *source, unsigned milliseconds, WantedPage *pages, uint64_t most) {
    const struct timespec until = in_milliseconds(milliseconds);
    pthread_mutex_lock(&source->lock);
    source->idle++;
    while (source->count == 0 && !source->closed)
        if (pthread_cond_timedwait(&source->asked, &source->lock, &until) != 0) break;
    source->idle--;
    uint64_t share = (source->count + source->idle) / (source->idle + 1), taken = 0;
    if (share < FEWEST_TAKEN) share = FEWEST_TAKEN;
    if (share > most) share = most;
    if (source->closed) share = 0;
    for (; taken < share && source->count > 0; taken++) {
        pages[taken] = source->queue[source->first];
        source->first = (source->first + 1) & (source->room - 1);
        source->count--;
    }
    pthread_mutex_unlock(&source->lock);
    return taken;
}

void source_tell(SourceFile *file, uint64_t first, uint64_t end, int brought) {
    pthread_mutex_lock(&file->source->lock);
    for (uint64_t page = first; page < end; page++) {
        bit_clear(file->wanted, page);
        bit_set(brought ? file->brought : file->failed, page);
    }
    pthread_cond_broadcast(&file->source->told);
    pthread_mutex_unlock(&file->source->lock);
}
