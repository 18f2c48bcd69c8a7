// Reports two hand-overs between threads to ThreadSanitizer. They happen in libraries that it has not instrumented:
//
// - The slow paths of Synchronization.Mutex. Otherwise ThreadSanitizer ignores each mutex that a thread had to wait for.
// - A continuation that is resumed before its task waits for it. The runtime reports only jobs that go into a queue. Here the
//   task finds the value and goes on, so ThreadSanitizer would report a race between the value's writer and reader.
//
// These reports hide no race, because they only add an order that really existed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

void __tsan_acquire(void *) __attribute__((weak));
void __tsan_release(void *) __attribute__((weak));
void *swift_task_getCurrent(void) __attribute__((weak));

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static void acquire(void *place) {
    if (place && __tsan_acquire) __tsan_acquire(place);
}

static void release(void *place) {
    if (place && __tsan_release) __tsan_release(place);
}

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

SWIFT void lock_slow(uint32_t owner, SELF void *mutex) __asm__(LOCK);
SWIFT void lock_slow(uint32_t owner, SELF void *mutex) {
    static SWIFT void (*real)(uint32_t, SELF void *);
    if (!real) real = next(LOCK);
    real(owner, mutex);
    acquire(mutex);
}

SWIFT _Bool try_lock_slow(SELF void *mutex) __asm__(TRY);
SWIFT _Bool try_lock_slow(SELF void *mutex) {
    static SWIFT _Bool (*real)(SELF void *);
    if (!real) real = next(TRY);
    _Bool is_locked = real(mutex);
    if (is_locked) acquire(mutex);
    return is_locked;
}

SWIFT void unlock_slow(SELF void *mutex) __asm__(UNLOCK);
SWIFT void unlock_slow(SELF void *mutex) {
    static SWIFT void (*real)(SELF void *);
    if (!real) real = next(UNLOCK);
    release(mutex);
    real(mutex);
}

SWIFT void swift_continuation_resume(void *task) {
    static SWIFT void (*real)(void *);
    if (!real) real = next("swift_continuation_resume");
    release(task);
    real(task);
}

SWIFT void swift_continuation_throwingResume(void *task) {
    static SWIFT void (*real)(void *);
    if (!real) real = next("swift_continuation_throwingResume");
    release(task);
    real(task);
}

SWIFT void swift_continuation_throwingResumeWithError(void *task, void *error) {
    static SWIFT void (*real)(void *, void *);
    if (!real) real = next("swift_continuation_throwingResumeWithError");
    release(task);
    real(task, error);
}

// A checked continuation calls the three functions above, and the wait below, inside its library, so they cannot be wrapped.
// Therefore the resuming thread waits until the task has left its thread. After that the task is queued, or enters its thread
// again, and both are visible here.
//
// The continuation refers to an object that holds the task behind its header until it is resumed. The task's status shows
// whether it runs. If a later runtime changes these places, the planted faults fail.
static void release_checked(void **continuation) {
    char *task = ((char **)*continuation)[2];
    if (!task) return;
    release(task);
    if (!swift_task_getCurrent || swift_task_getCurrent() == task) return;
    for (int i = 0; i < 200 && __atomic_load_n((uint64_t *)(task + 0x60), __ATOMIC_RELAXED) & 0x800; i++) usleep(50);
}

#define CHECKED_RETURNING "$sScC6resume9returningyxn_tF"
#define CHECKED_THROWING "$sScC6resume8throwingyq_n_tF"

SWIFT void checked_returning(void *value, void *type, SELF void **continuation) __asm__(CHECKED_RETURNING);
SWIFT void checked_returning(void *value, void *type, SELF void **continuation) {
    static SWIFT void (*real)(void *, void *, SELF void **);
    if (!real) real = next(CHECKED_RETURNING);
    release_checked(continuation);
    real(value, type, continuation);
}

SWIFT void checked_throwing(void *error, void *type, SELF void **continuation) __asm__(CHECKED_THROWING);
SWIFT void checked_throwing(void *error, void *type, SELF void **continuation) {
    static SWIFT void (*real)(void *, void *, SELF void **);
    if (!real) real = next(CHECKED_THROWING);
    release_checked(continuation);
    real(error, type, continuation);
}

// The continuation was resumed before the task looked, so the task goes on at once.
__attribute__((swiftasynccall)) void swift_continuation_await(void *context) {
    static __attribute__((swiftasynccall)) void (*real)(void *);
    if (!real) real = next("swift_continuation_await");
    acquire(swift_task_getCurrent());
    __attribute__((musttail)) return real(context);
}

// The continuation was resumed after the task's look and before its sleep, so the task enters its thread's context again.
void swift_task_enterThreadLocalContext(char *context) {
    static void (*real)(char *);
    if (!real) real = next("swift_task_enterThreadLocalContext");
    if (swift_task_getCurrent) acquire(swift_task_getCurrent());
    real(context);
}
