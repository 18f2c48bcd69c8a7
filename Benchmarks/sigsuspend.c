// libdispatch waits in sigsuspend with a mask that cannot be written to; Debian's valgrind (3.19) writes to it and ends. This
// hands it a copy.
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int sigsuspend(const sigset_t *mask) {
    unsigned char copy[8];
    memcpy(copy, mask, sizeof copy);
    return (int)syscall(SYS_rt_sigsuspend, copy, sizeof copy);
}
