// libdispatch calls sigsuspend with a mask in read-only memory. Debian's valgrind (3.19) writes to the mask and crashes. This
// function passes a copy of the mask.
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
