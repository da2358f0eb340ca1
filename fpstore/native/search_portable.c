/* Searching, for any machine. */
#include "search.h"

#include "portable.h"

#include "search_body.h"
