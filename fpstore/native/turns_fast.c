/* Near keys with POPCNT. */
#include "turns.h"

#include "fast.h"

#include "turns_body.h"
