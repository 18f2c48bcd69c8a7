// glibc's malloc_trim, which is missing from glibc's own Swift module (docs/decisions/0014).
#ifdef __linux__
#include <malloc.h>
#endif
