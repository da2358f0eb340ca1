/* Dealing out keys, for any machine. */
#include "sort.h"

#include "portable.h"

#include "sort_body.h"
