/* Moves the clocks of one process. The file named by PRELOADED_CLOCK has two offsets (64-bit numbers of milliseconds, wall and
   monotonic). Preloaded, this library adds them to the system's clocks, and subtracts them from times that go to the kernel. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none[2];
static volatile int64_t *offsets = none;
static clockid_t timers[65536];
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_timerfd_create)(int, int);
static int (*real_timerfd_settime)(int, int, const struct itimerspec *, struct itimerspec *);
static int (*real_sem_timedwait)(sem_t *, const struct timespec *);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_timerfd_create = dlsym(RTLD_NEXT, "timerfd_create");
    real_timerfd_settime = dlsym(RTLD_NEXT, "timerfd_settime");
    real_sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
    real_cond_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    const char *path = getenv("PRELOADED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, 16, PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) offsets = found;
    close(file);
}

static int64_t offset_of(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME: case CLOCK_REALTIME_COARSE: return offsets[0];
    case CLOCK_MONOTONIC: case CLOCK_MONOTONIC_RAW: case CLOCK_MONOTONIC_COARSE: case CLOCK_BOOTTIME: return offsets[1];
    default: return 0;
    }
}

static struct timespec moved(struct timespec time, int64_t milliseconds)
{
    int64_t nanoseconds = time.tv_nsec + milliseconds % 1000 * 1000000;
    time.tv_sec += milliseconds / 1000;
    if (nanoseconds < 0) { nanoseconds += 1000000000; time.tv_sec -= 1; }
    if (nanoseconds >= 1000000000) { nanoseconds -= 1000000000; time.tv_sec += 1; }
    time.tv_nsec = nanoseconds;
    return time;
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int status = real_clock_gettime ? real_clock_gettime(clock, time) : (int)syscall(SYS_clock_gettime, clock, time);
    if (status == 0) *time = moved(*time, offset_of(clock));
    return status;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result) *result = now.tv_sec;
    return now.tv_sec;
}

int timerfd_create(int clock, int flags)
{
    int file = real_timerfd_create(clock, flags);
    if (file >= 0 && file < 65536) timers[file] = clock;
    return file;
}

int timerfd_settime(int file, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    struct itimerspec wanted = *value;
    int isSet = wanted.it_value.tv_sec != 0 || wanted.it_value.tv_nsec != 0;
    if ((flags & TFD_TIMER_ABSTIME) && isSet && file >= 0 && file < 65536) {
        wanted.it_value = moved(wanted.it_value, -offset_of(timers[file]));
        if (wanted.it_value.tv_sec < 0) { wanted.it_value.tv_sec = 0; wanted.it_value.tv_nsec = 1; }
    }
    return real_timerfd_settime(file, flags, &wanted, old);
}

/* A wait until a time of the wall clock is made in slices, because a test may move the clock meanwhile. The kernel's own wait
   also follows a clock that is set. */
static void slice(struct timespec until, struct timespec *end)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t left = (until.tv_sec - now.tv_sec) * 1000000000LL + until.tv_nsec - now.tv_nsec;
    real_clock_gettime(CLOCK_REALTIME, end);
    end->tv_nsec += left < 0 ? 0 : left < 2000000 ? left : 2000000;
    if (end->tv_nsec >= 1000000000) { end->tv_nsec -= 1000000000; end->tv_sec += 1; }
}

static int has_passed(struct timespec until)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec > until.tv_sec || (now.tv_sec == until.tv_sec && now.tv_nsec >= until.tv_nsec);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict until)
{
    struct timespec end;
    while (1) {
        slice(*until, &end);
        if (real_sem_timedwait(semaphore, &end) == 0) return 0;
        if (errno != ETIMEDOUT || has_passed(*until)) return -1;
    }
}

int pthread_cond_timedwait(
    pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, const struct timespec *restrict until)
{
    struct timespec end;
    while (1) {
        slice(*until, &end);
        int status = real_cond_timedwait(condition, mutex, &end);
        if (status != ETIMEDOUT || has_passed(*until)) return status;
    }
}
