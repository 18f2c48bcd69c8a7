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

// A checked continuation calls the three above, and the waiting below, inside its library, where nothing can be put before
// them. So whoever resumes one waits until the task has left its thread; from there on the task is queued, or enters its thread
// again, and both are seen. The continuation is a reference to an object that holds the task behind its header until it is
// resumed; whether a task runs is in its status. (Where a later runtime has them elsewhere, the planted faults say so.)
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
