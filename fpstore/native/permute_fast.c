/* Permuting keys by PEXT and PDEP. */
#include "permute.h"

#include "fast.h"

#include "permute_body.h"
