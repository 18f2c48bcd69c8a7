import Foundation
import Glibc
import Synchronization

/// Receives log lines and writes them on a thread of its own, so that a slow reader never delays an event loop.
///
/// A line that does not fit into the buffer is dropped and counted.
final class LogSink: Sendable {
    private struct State {
        var buffer: [UInt8] = []
        var dropped = 0
        var isClosed = false
    }

    /// The largest number of waiting bytes.
    static let capacity = 1 << 20
    /// The time in seconds that the first waiting line waits for further lines, which are then written together.
    private static let gathering = 0.005
    /// Guards the waiting lines.
    private let state = Mutex(State())
    private let signal = DispatchSemaphore(value: 0)
    private let finished = DispatchSemaphore(value: 0)
    private let descriptor: Int32

    /// Creates a sink that writes to a file descriptor, by default standard error.
    init(descriptor: Int32 = 2) {
        self.descriptor = descriptor
        let thread = Thread { [self] in work() }
        thread.name = "log"
        thread.stackSize = 128 << 10
        thread.start()
    }

    /// The number of waiting bytes.
    var waiting: Int { state.withLock { $0.buffer.count } }

    /// Takes one line without its line end.
    ///
    /// The call waits only while another caller appends a line.
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

    /// Writes the waiting lines and ends the thread, within a second.
    func close() {
        state.withLock { $0.isClosed = true }
        signal.signal()
        _ = finished.wait(timeout: .now() + 1)
    }

    private func work() {
        while true {
            signal.wait()
            // Lines at nearly the same time share one write, because waking the thread and writing cost more than making the
            // lines.
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
            // The log's reader is gone, but the broker continues to serve.
            guard count > 0 else { return }
            offset += count
        }
    }
}
