// Tells ThreadSanitizer of the slow paths of Synchronization.Mutex, which lie in a library that it has not instrumented:
// without this every mutex that somebody waited for looks like no mutex at all.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

void __tsan_acquire(void *) __attribute__((weak));
void __tsan_release(void *) __attribute__((weak));

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

#define LOCK "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define TRY "$s15Synchronization12_MutexHandleV12_tryLockSlowSbyF"
#define UNLOCK "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

SWIFT void lock_slow(uint32_t owner, SELF void *mutex) __asm__(LOCK);
SWIFT void lock_slow(uint32_t owner, SELF void *mutex) {
    static SWIFT void (*real)(uint32_t, SELF void *);
    if (!real) real = next(LOCK);
    real(owner, mutex);
    if (__tsan_acquire) __tsan_acquire(mutex);
}

SWIFT _Bool try_lock_slow(SELF void *mutex) __asm__(TRY);
SWIFT _Bool try_lock_slow(SELF void *mutex) {
    static SWIFT _Bool (*real)(SELF void *);
    if (!real) real = next(TRY);
    _Bool is_locked = real(mutex);
    if (is_locked && __tsan_acquire) __tsan_acquire(mutex);
    return is_locked;
}

SWIFT void unlock_slow(SELF void *mutex) __asm__(UNLOCK);
SWIFT void unlock_slow(SELF void *mutex) {
    static SWIFT void (*real)(SELF void *);
    if (!real) real = next(UNLOCK);
    if (__tsan_release) __tsan_release(mutex);
    real(mutex);
}
