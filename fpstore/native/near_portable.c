/* Comparing a few keys with each other, for any machine. */
#include "near.h"

#include "portable.h"

#include "near_body.h"
