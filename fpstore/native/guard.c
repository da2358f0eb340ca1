/* The handler of SIGBUS and the mappings that it knows. One library of the process links this: fpstore/_view.pyx. */
#include "guard.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif

/* Only ever grows, as a handler may be walking along it; written under the interpreter's lock. */
static Guard *guards;

/* The handlers that were there before ours, which may have been put above others more than once. */
enum { GUARD_HANDLERS = 8 };
static struct sigaction guard_below[GUARD_HANDLERS];
static int guard_depth;

/* What is gone is gone in whole pages of so many bytes, or of more. */
enum { GONE_BYTES = 4096 };

/* Zeros in place of the mappings that hold this address; whether there is one. */
static int guard_replace(uintptr_t address) {
    int replaced = 0;
    for (Guard *guard = __atomic_load_n(&guards, __ATOMIC_ACQUIRE); guard != NULL; guard = guard->next) {
        uintptr_t base = __atomic_load_n(&guard->base, __ATOMIC_ACQUIRE);
        size_t bytes = __atomic_load_n(&guard->bytes, __ATOMIC_ACQUIRE);
        /* Of the bytes that a copy asks for, which one it asks for first is the processor's affair. */
        uintptr_t first = address / GONE_BYTES * GONE_BYTES;
        uint64_t none = 0;
        /* The second look: bytes may be those of the guard's next use. */
        if (base == 0 || address < base || address - base >= bytes ||
            __atomic_load_n(&guard->base, __ATOMIC_ACQUIRE) != base)
            continue;
        /* Marked first, so that whoever reads a zero finds the mark. */
        __atomic_compare_exchange_n(&guard->lost, &none, (first < base ? base : first) - base + 1, 0, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
        replaced |= mmap((void *)base, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return replaced;
}

/* Hand a signal to the handler below. That one may raise it again, which comes here and goes one further down. */
static void guard_pass_on(int number, siginfo_t *info, void *context, int is_fault) {
    int depth = __atomic_sub_fetch(&guard_depth, 1, __ATOMIC_SEQ_CST);
    struct sigaction below = {.sa_handler = SIG_DFL};
    if (depth >= 0) below = guard_below[depth];
    if (below.sa_flags & SA_SIGINFO) {
        below.sa_sigaction(number, info, context);
    } else if (below.sa_handler != SIG_DFL && below.sa_handler != SIG_IGN) {
        below.sa_handler(number);
    } else {
        /* What the system does with it: at once, or when the instruction is tried again. */
        sigaction(number, &below, NULL);
        if (!is_fault) raise(number);
    }
    __atomic_add_fetch(&guard_depth, 1, __ATOMIC_SEQ_CST);
}

static void guard_signal(int number, siginfo_t *info, void *context) {
    int error = errno, is_fault = info->si_code > 0 && info->si_code != SI_USER; /* else a process sent it */
    if (!is_fault || !guard_replace((uintptr_t)info->si_addr)) guard_pass_on(number, info, context, is_fault);
    errno = error;
}

/* Be the first to be told of SIGBUS, whoever else has come to be since. */
static void guard_install(void) {
    struct sigaction now, ours;
    if (sigaction(SIGBUS, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == guard_signal)) return;
    int depth = guard_depth < GUARD_HANDLERS ? guard_depth : GUARD_HANDLERS - 1;
    guard_below[depth] = now;
    __atomic_store_n(&guard_depth, depth + 1, __ATOMIC_SEQ_CST);
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = guard_signal;
    ours.sa_flags =
        SA_SIGINFO | SA_ONSTACK | SA_NODEFER; /* no deferring: a handler below may end by raising it again */
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, NULL);
}

Guard *guard_add(const void *base, size_t bytes) {
    Guard *guard = guards;
    guard_install();
    while (guard != NULL && guard->base != 0) guard = guard->next;
    if (guard == NULL) {
        guard = calloc(1, sizeof *guard);
        if (guard == NULL) return NULL;
        guard->next = guards;
        __atomic_store_n(&guards, guard, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&guard->lost, 0, __ATOMIC_RELEASE);
    __atomic_store_n(&guard->bytes, bytes, __ATOMIC_RELEASE);
    __atomic_store_n(&guard->base, (uintptr_t)base, __ATOMIC_RELEASE);
    guard->last = load64(guard_end(guard));
    return guard;
}

void guard_remove(Guard *guard) { __atomic_store_n(&guard->base, 0, __ATOMIC_RELEASE); }
