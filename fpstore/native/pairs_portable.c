/* Joins, for any machine. */
#include "pairs.h"

#include "portable.h"

#include "pairs_body.h"
