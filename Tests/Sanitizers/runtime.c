// Tells ThreadSanitizer of two hand-overs between threads that lie in libraries which it has not instrumented:
//
// - The slow paths of Synchronization.Mutex. Without this every mutex that somebody waited for looks like no mutex at all.
// - A continuation that is resumed before its task waits for it. The runtime tells of every job that is put into a queue, but
//   here there is none: the task finds the value and goes on. Without this, whoever made the value races with whoever reads it.
//
// Nothing is hidden by it: what is known afterwards is only that one came before the other, where it did.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

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

// Resumed before it looks: the task goes on at once.
__attribute__((swiftasynccall)) void swift_continuation_await(void *context) {
    static __attribute__((swiftasynccall)) void (*real)(void *);
    if (!real) real = next("swift_continuation_await");
    acquire(swift_task_getCurrent());
    __attribute__((musttail)) return real(context);
}

// Resumed between its look and its going to sleep: the task, which had left its thread's context, enters it again.
void swift_task_enterThreadLocalContext(char *context) {
    static void (*real)(char *);
    if (!real) real = next("swift_task_enterThreadLocalContext");
    if (swift_task_getCurrent) acquire(swift_task_getCurrent());
    real(context);
}
