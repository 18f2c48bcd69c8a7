// This library, if preloaded, plays a file on a mount that hangs: opening HANGING_FILE waits as long as HANGING_WHILE exists.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void wait_for(const char *path) {
    const char *file = getenv("HANGING_FILE"), *flag = getenv("HANGING_WHILE");
    if (!file || !flag || strcmp(path, file) != 0) return;
    while (access(flag, F_OK) == 0) usleep(20000);
}

int open(const char *path, int flags, ...) {
    static int (*real)(const char *, int, ...);
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (!real) real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    wait_for(path);
    return real(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    return open(path, flags, mode);
}
