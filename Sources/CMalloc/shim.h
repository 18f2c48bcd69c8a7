// glibc's malloc_trim, which no module of its own offers (docs/decisions/0014).
#ifdef __linux__
#include <malloc.h>
#endif
