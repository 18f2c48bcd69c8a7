import Glibc

/// The other end of the pipe: who keeps the broker running takes commands from it.
struct BrokerProcess: Sendable {
    /// The pipe's path; nil where nobody restarts the broker.
    let commands: String?

    /// Has the broker killed and started again; false when nobody took the command.
    func kill() -> Bool { send("kill-broker\n") }

    private func send(_ line: String) -> Bool {
        guard let commands else { return false }
        // Without a reader this fails at once, and does not wait.
        let descriptor = open(commands, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let bytes = Array(line.utf8)
        return bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) } == bytes.count
    }
}
