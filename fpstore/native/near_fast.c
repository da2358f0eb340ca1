/* Comparing a few keys with each other with POPCNT. */
#include "near.h"

#include "fast.h"

#include "near_body.h"
