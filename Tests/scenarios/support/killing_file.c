// This library, if preloaded, kills its process at a point of a file's life: KILLING_FILE is the end of the file's path, and
// KILLING_AT is `write`, `written`, `sync` or `synced` with the number of the call, such as `sync 2`. "written" and "synced" are
// the moments after the call.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_the_file(int descriptor) {
    const char *file = getenv("KILLING_FILE");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (!file || length < 0) return 0;
    path[length] = 0;
    return (size_t)length >= strlen(file) && strcmp(path + length - strlen(file), file) == 0;
}

static void reach(const char *point, int number) {
    char now[64];
    snprintf(now, sizeof now, "%s %d", point, number);
    const char *at = getenv("KILLING_AT");
    if (at && strcmp(at, now) == 0) kill(getpid(), SIGKILL);
}

static ssize_t written(const char *name, int descriptor, const void *bytes, size_t count, off_t offset) {
    static int calls;
    ssize_t (*real)(int, const void *, size_t, off_t) = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, name);
    if (!is_the_file(descriptor)) return real(descriptor, bytes, count, offset);
    calls++;
    reach("write", calls);
    // A process that is killed within a write leaves a torn line.
    const char *at = getenv("KILLING_AT");
    if (at && strcmp(at, "torn 1") == 0) {
        real(descriptor, bytes, count / 2, offset);
        reach("torn", calls);
    }
    ssize_t result = real(descriptor, bytes, count, offset);
    reach("written", calls);
    return result;
}

ssize_t pwrite(int descriptor, const void *bytes, size_t count, off_t offset) {
    return written("pwrite", descriptor, bytes, count, offset);
}

ssize_t pwrite64(int descriptor, const void *bytes, size_t count, off_t offset) {
    return written("pwrite64", descriptor, bytes, count, offset);
}

int fsync(int descriptor) {
    static int calls;
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (!is_the_file(descriptor)) return real(descriptor);
    calls++;
    reach("sync", calls);
    int result = real(descriptor);
    reach("synced", calls);
    return result;
}
