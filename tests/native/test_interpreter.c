/* Who is said to have the interpreter's lock, by two threads. */
#include "harness.h"

#include <pthread.h>

#include "interpreter.h"

enum { SOON = 1000, NEVER = 0 }; /* nanoseconds */
static const uint64_t LONG = UINT64_C(3600000000000);

static void *takes(void *is_here) {
    interpreter_begins();
    interpreter_comes();
    *(int *)is_here = interpreter_is_here();
    return NULL;
}

static void *takes_no_part(void *is_here) {
    interpreter_comes();
    *(int *)is_here = interpreter_is_here();
    return NULL;
}

static void *leaves(void *is_here) {
    interpreter_left();
    *(int *)is_here = interpreter_is_here();
    return NULL;
}

/* Whether another thread has it when it has done that. */
static int another(void *(*does)(void *)) {
    pthread_t thread;
    int is_here = 0;
    if (pthread_create(&thread, NULL, does, &is_here) != 0 || pthread_join(thread, NULL) != 0) exit(2);
    return is_here;
}

void test_interpreter(void) {
    interpreter_wait_at_most(NEVER);
    interpreter_begins();
    interpreter_comes();
    EXPECT(!interpreter_is_here(), "nobody says anything where nobody waits");
    interpreter_wait_at_most(SOON);
    interpreter_comes();
    interpreter_comes();
    EXPECT(interpreter_is_here(), "who comes has it, also a second time");
    EXPECT(!another(leaves) && interpreter_is_here(), "nobody leaves but who has it");
    EXPECT(another(takes), "who stays for long is not waited for");
    EXPECT(!interpreter_is_here(), "one alone has it");
    interpreter_left(); /* what another has */
    interpreter_comes();
    EXPECT(interpreter_is_here(), "a thread that ended is not waited for");
    EXPECT(!another(takes_no_part) && interpreter_is_here(), "who takes no part waits for nobody");
    interpreter_wait_at_most(LONG);
    pthread_t thread;
    int is_here = 0;
    if (pthread_create(&thread, NULL, takes, &is_here) != 0) exit(2);
    interpreter_left(); /* or the other one waits for an hour */
    if (pthread_join(thread, NULL) != 0) exit(2);
    EXPECT(is_here, "who leaves lets the next one have it");
    EXPECT(!interpreter_is_here(), "who left has it no more");
    interpreter_wait_at_most(SOON);
    interpreter_begins();
    interpreter_comes();
    interpreter_ends();
    EXPECT(!interpreter_is_here(), "who ends leaves");
    interpreter_comes();
    EXPECT(interpreter_is_here(), "who has begun twice ends twice");
    for (int i = 0; i < 2; i++) interpreter_ends(); /* once more than it has begun */
    interpreter_comes();
    EXPECT(!interpreter_is_here(), "who takes no part is not said to have it");
    interpreter_wait_at_most(NEVER);
}
