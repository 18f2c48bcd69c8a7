import Glibc

/// Sends commands to the script that restarts the broker.
struct BrokerProcess: Sendable {
    /// The pipe's path; nil if no script restarts the broker.
    let commands: String?

    /// Kills and restarts the broker; returns false if no script reads the command.
    func kill() -> Bool { send("kill-broker\n") }

    private func send(_ line: String) -> Bool {
        guard let commands else { return false }
        // With `O_NONBLOCK`, opening a pipe that has no reader fails at once instead of waiting.
        let descriptor = open(commands, O_WRONLY | O_NONBLOCK | O_CLOEXEC)
        guard descriptor >= 0 else { return false }
        defer { close(descriptor) }
        let bytes = Array(line.utf8)
        return bytes.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) } == bytes.count
    }
}
