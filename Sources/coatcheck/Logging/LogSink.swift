import Foundation
import Glibc
import Synchronization

/// Takes log lines and writes them in a thread of its own: a slow reader of the log never holds up an event loop.
///
/// What does not fit into the buffer is dropped and counted.
final class LogSink: Sendable {
    private struct State {
        var buffer: [UInt8] = []
        var dropped = 0
        var isClosed = false
    }

    /// How many bytes may wait.
    static let capacity = 1 << 20
    /// How long the first line of a batch waits for more, in seconds.
    private static let gathering = 0.005
    /// Guards the lines that wait.
    private let state = Mutex(State())
    private let signal = DispatchSemaphore(value: 0)
    private let finished = DispatchSemaphore(value: 0)
    private let descriptor: Int32

    /// Creates a sink that writes to a file descriptor, standard error unless told otherwise.
    init(descriptor: Int32 = 2) {
        self.descriptor = descriptor
        let thread = Thread { [self] in work() }
        thread.name = "log"
        thread.stackSize = 128 << 10
        thread.start()
    }

    /// How many bytes wait to be written.
    var waiting: Int { state.withLock { $0.buffer.count } }

    /// Takes one line without its line end.
    ///
    /// Never blocks for longer than another writer's append.
    func write(_ line: [UInt8]) {
        let wasEmpty = state.withLock { state -> Bool in
            guard !state.isClosed, state.buffer.count + line.count < Self.capacity else {
                state.dropped += 1
                return false
            }
            let wasEmpty = state.buffer.isEmpty
            state.buffer.append(contentsOf: line)
            state.buffer.append(0x0A)
            return wasEmpty
        }
        if wasEmpty { signal.signal() }
    }

    /// Writes what waits and ends the thread; waits a second at most.
    func close() {
        state.withLock { $0.isClosed = true }
        signal.signal()
        _ = finished.wait(timeout: .now() + 1)
    }

    private func work() {
        while true {
            signal.wait()
            // Lines that come close together share one write: waking and writing cost more than making them.
            if !state.withLock({ $0.isClosed }) { Thread.sleep(forTimeInterval: Self.gathering) }
            let (bytes, dropped, isClosed) = state.withLock { state in
                let taken = (state.buffer, state.dropped, state.isClosed)
                state.buffer = []
                state.dropped = 0
                return taken
            }
            writeAll(bytes)
            if dropped > 0, !isClosed {
                writeAll(Array("{\"level\":\"warning\",\"message\":\"log lines dropped\",\"count\":\(dropped)}\n".utf8))
            }
            if isClosed { break }
        }
        finished.signal()
    }

    private func writeAll(_ bytes: [UInt8]) {
        var offset = 0
        while offset < bytes.count {
            let count = bytes[offset...].withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            // Nobody reads the log any more: that is no reason to stop serving.
            guard count > 0 else { return }
            offset += count
        }
    }
}
