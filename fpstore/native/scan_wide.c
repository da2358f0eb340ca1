/* Scanning with AVX-512. */
#include "scan.h"

#include "wide.h"

#include "scan_body.h"
