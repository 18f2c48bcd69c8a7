// The C library's own module leaves malloc_trim(3) out.
#include <malloc.h>
