/* Pending fingerprints with BMI2 and POPCNT. */
#include "pending.h"

#include "fast.h"

#include "pending_body.h"
