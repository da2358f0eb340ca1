/* Whether the kernels that were chosen compute, on this machine, what they should. */
#ifndef FPSTORE_KNOWN_ANSWER_H
#define FPSTORE_KNOWN_ANSWER_H

#include "platform.h"

/* The part of the kernels that computes something wrong, the first of them, or has no memory to compute it; NULL where
   all is well. Takes 0.2 ms. For the tests, FPSTORE_WRONG_ANSWER in the environment names a part that is found wrong
   anyhow. */
const char *known_answer_wrong(void);

#endif
