#include "interpreter.h"

#include <stddef.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define PAUSE() _mm_pause()
#elif defined(__aarch64__)
#define PAUSE() __asm__ volatile("isb")
#else
#define PAUSE() ((void)0)
#endif

enum { LOOKS = 16 }; /* between two looks at the clock */

static const unsigned char *here;          /* of whoever is said to have it */
static _Thread_local unsigned char myself; /* whose address is that of the thread; for how much of a job it works */
static uint64_t longest;

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

static int come(void) {
    const unsigned char *nobody = NULL;
    return __atomic_load_n(&here, __ATOMIC_RELAXED) == NULL &&
           __atomic_compare_exchange_n(&here, &nobody, &myself, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void interpreter_wait_at_most(uint64_t nanoseconds) { longest = nanoseconds; }

int interpreter_is_here(void) { return __atomic_load_n(&here, __ATOMIC_RELAXED) == &myself; }

void interpreter_comes(void) {
    if (!longest || !myself || come() || interpreter_is_here()) return;
    const uint64_t begun = now();
    do {
        for (int look = 0; look < LOOKS; look++) {
            if (come()) return;
            PAUSE();
        }
    } while (now() - begun < longest);
    __atomic_store_n(&here, &myself, __ATOMIC_RELAXED);
}

void interpreter_left(void) {
    const unsigned char *mine = &myself;
    if (interpreter_is_here()) __atomic_compare_exchange_n(&here, &mine, NULL, 0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

void interpreter_begins(void) { myself++; }

void interpreter_ends(void) {
    if (myself) myself--;
    interpreter_left();
}
