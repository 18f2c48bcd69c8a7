#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A thread of the operating system for blocking work, which must stay off the cooperative pool.
enum OSThread {
    /// The closure that is handed to the thread.
    private final class Body {
        let run: @Sendable () -> Void

        init(_ run: @escaping @Sendable () -> Void) { self.run = run }
    }

    /// Runs `body` on a thread of its own; returns false if the system has no thread left.
    static func start(_ body: @escaping @Sendable () -> Void) -> Bool {
        let context = Unmanaged.passRetained(Body(body))
        var attributes = pthread_attr_t()
        guard pthread_attr_init(&attributes) == 0 else {
            context.release()
            return false
        }
        defer { pthread_attr_destroy(&attributes) }
        pthread_attr_setdetachstate(&attributes, CInt(PTHREAD_CREATE_DETACHED))
        #if canImport(Darwin)
            var thread: pthread_t?
            let result = pthread_create(
                &thread, &attributes, { pointer in OSThread.enter(pointer) }, context.toOpaque())
        #else
            var thread = pthread_t()
            let result = pthread_create(
                &thread, &attributes, { pointer in OSThread.enter(pointer) }, context.toOpaque())
        #endif
        if result != 0 { context.release() }
        return result == 0
    }

    private static func enter(_ pointer: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
        if let pointer { Unmanaged<Body>.fromOpaque(pointer).takeRetainedValue().run() }
        return nil
    }
}
