/* Comparing a few keys with each other with AVX-512. */
#include "near.h"

#include "wide.h"

#include "near_body.h"
