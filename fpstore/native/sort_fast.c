/* Dealing out keys by PEXT. */
#include "sort.h"

#include "fast.h"

#include "sort_body.h"
