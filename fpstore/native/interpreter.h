/* Who of those that take part has the interpreter's lock, as far as they say: a hint by which nobody has to abide.

   Python wakes a thread that sleeps for its lock, which on a virtual machine takes 50 to 100 us, longer than most of
   what the lock is held for between two calls of C. So who is about to take it waits awake, for a while, for whoever
   said that he has it; and takes his place where that lasts: he may sleep for something else by now. */
#ifndef FPSTORE_INTERPRETER_H
#define FPSTORE_INTERPRETER_H

#include <stdint.h>

/* The calling thread takes part until it ends that, as often as it has begun. Who does not says nothing, and waits for
   nobody: he may call once in a while, and would find that the last who did so is said to have it ever since. */
void interpreter_begins(void);
void interpreter_ends(void);
/* For so long at most; 0, as it begins: not at all, and nobody says anything. */
void interpreter_wait_at_most(uint64_t nanoseconds);
/* The calling thread is about to take the lock: returns when nobody else is said to have it, who does from now on. */
void interpreter_comes(void);
/* The calling thread has let go of the lock. */
void interpreter_left(void);
/* Whether the calling thread is said to have it. */
int interpreter_is_here(void);

#endif
