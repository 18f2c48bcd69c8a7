import Broker

#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// Wakes a thread from `poll`, through a pipe.
final class Wakeup: Sendable {
    private let reading: CInt
    private let writing: CInt

    /// Creates the pipe; nil if the process has no descriptors left.
    init?() {
        var ends: [CInt] = [-1, -1]
        guard pipe(&ends) == 0 else { return nil }
        (reading, writing) = (ends[0], ends[1])
        for end in ends {
            _ = fcntl(end, F_SETFL, O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
    }

    deinit {
        close(reading)
        close(writing)
    }

    /// Ends the current `poll`, or the next one.
    func signal() {
        var byte: UInt8 = 1
        // If the pipe is full, the write fails. The bytes that are already in the pipe wake the thread.
        _ = write(writing, &byte, 1)
    }

    /// Waits for a signal or for the descriptor, at most for the given time, and returns the descriptor's ready events.
    ///
    /// Pass -1 to wait for the signal alone.
    func wait(for descriptor: CInt, events: Int16, atMost: Duration?) -> Int16 {
        var polled = [
            pollfd(fd: reading, events: Int16(POLLIN), revents: 0), pollfd(fd: descriptor, events: events, revents: 0),
        ]
        let timeout = atMost.map { CInt(clamping: max($0.wholeMilliseconds, 0) + 1) } ?? -1
        guard poll(&polled, nfds_t(polled.count), timeout) > 0 else { return 0 }
        if polled[0].revents != 0 { drain() }
        return polled[1].revents
    }

    private func drain() {
        var bytes: [UInt8] = Array(repeating: 0, count: 256)
        while read(reading, &bytes, bytes.count) == bytes.count {}
    }
}
