/* Near keys with AVX-512. */
#include "turns.h"

#include "wide.h"

#include "turns_body.h"
