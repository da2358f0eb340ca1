/* Permuting keys, for any machine. */
#include "permute.h"

#include "portable.h"

#include "permute_body.h"
