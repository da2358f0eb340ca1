/* Pages of mapped files whose bytes lie elsewhere until they are first used.

   Who needs a page, a kernel, waits for it here; who brings pages takes what is wanted here, writes it into the file
   that is mapped, and tells. A page is there when its checksum holds: nothing here is kept on disk, and nothing is
   believed of what is told. */
#ifndef FPSTORE_SOURCE_H
#define FPSTORE_SOURCE_H

#include "platform.h"

typedef struct Source Source;

/* A file of a source; pages are counted as in Pages: those of the file, then those of its checksums. */
typedef struct {
    Source *source;
    uint64_t number;
    uint64_t pages;
    uint64_t *wanted;  /* a bit for each page that is waited for or was asked for, and has not been told of */
    uint64_t *brought; /* and for each that was told to be there, and that nobody has missed since */
    uint64_t *failed;  /* and for each that could not be brought, until it is wanted again */
    uint64_t next;     /* the page after the last one that was waited for */
    unsigned run;      /* how many of these followed one another */
} SourceFile;

typedef struct {
    uint64_t file, page;
} WantedPage;

/* holds_lock: whether the caller holds a lock without which nobody can bring anything. is_stopped: asked now and then
   by who waits, whether nobody is to wait any longer. NULL without memory. */
Source *source_new(int (*holds_lock)(void), int (*is_stopped)(void));

/* Nobody waits, takes or asks any more. */
void source_free(Source *source);

/* From now on nothing is brought: who waits is told so, and so is who takes. */
void source_close(Source *source);

/* Wait until a page was brought; at once where it was lately. NOT_BROUGHT where it could not be, or not waited for. The
   last of a run of pages asks for those that follow, the more the longer the run is. */
Status source_fetch(SourceFile *file, uint64_t page);

/* A page will be needed soon. */
void source_ask(SourceFile *file, uint64_t page);

/* Forget that pages were brought: they are there no longer. */
void source_forget(SourceFile *file);

/* Take wanted pages, those that were wanted first, fewer where others wait to take some; waits for the first at most so
   long. 0 where there was none, or the source is closed. */
uint64_t source_take(Source *source, unsigned milliseconds, WantedPage *pages, uint64_t most);

/* Pages [first, end) are there now, or could not be brought. */
void source_tell(SourceFile *file, uint64_t first, uint64_t end, int brought);

#endif
