/// The error of a wait whose condition stayed false.
package struct NotWithinTime: Error, CustomStringConvertible {
    package let description: String
}

/// The longest wait for a condition.
///
/// The wait is shorter than every suite's time limit, because that limit ends a test without a message.
package let patience = Duration.seconds(45)

/// Waits until a condition is true; throws an error that names the condition if it stays false.
package func eventually(
    _ what: String, within time: Duration = patience, file: String = #fileID, line: Int = #line,
    _ isSo: () async throws -> Bool
) async throws {
    guard try await eventually(within: time, isSo) else {
        throw NotWithinTime(description: "not within \(time): \(what) (\(file):\(line))")
    }
}

/// Returns whether a condition becomes true within a time.
///
/// If it stays false, the caller has to report the failure.
package func eventually(within time: Duration = patience, _ isSo: () async throws -> Bool) async throws -> Bool {
    let end = ContinuousClock.now + time
    while try await !isSo() {
        guard ContinuousClock.now < end else { return false }
        try await Task.sleep(for: .milliseconds(2))
    }
    return true
}
