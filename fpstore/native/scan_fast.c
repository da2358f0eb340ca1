/* Scanning with AVX2 and BMI2. */
#include "scan.h"

#include "fast.h"

#include "scan_body.h"
