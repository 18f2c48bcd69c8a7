// glibc's adjtimex, which is missing from glibc's own Swift module (docs/decisions/0048).
#ifdef __linux__
#include <sys/timex.h>
#endif
