/* Searching wide codes, for any machine. */
#include "codes.h"

#include "portable.h"

#include "codes_body.h"
