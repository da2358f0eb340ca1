/* Keys in memory, for any machine. */
#include "key_index.h"

#include "portable.h"

#include "key_index_body.h"
