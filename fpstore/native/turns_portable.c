/* Near keys for any machine. */
#include "turns.h"

#include "portable.h"

#include "turns_body.h"
