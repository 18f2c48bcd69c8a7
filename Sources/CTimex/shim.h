// glibc's adjtimex, which no module of its own offers (docs/decisions/0048).
#ifdef __linux__
#include <sys/timex.h>
#endif
