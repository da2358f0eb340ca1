/* Pending fingerprints, for any machine. */
#include "pending.h"

#include "portable.h"

#include "pending_body.h"
