/// A condition that did not come to hold.
package struct NotWithinTime: Error, CustomStringConvertible {
    package let description: String
}

/// Less than the shortest time limit of a suite, which would end the test without a word.
package let patience = Duration.seconds(45)

/// Waits for a condition, and says what was waited for when it does not come to hold.
package func eventually(
    _ what: String, within time: Duration = patience, file: String = #fileID, line: Int = #line,
    _ isSo: () async throws -> Bool
) async throws {
    guard try await eventually(within: time, isSo) else {
        throw NotWithinTime(description: "not within \(time): \(what) (\(file):\(line))")
    }
}

/// Whether a condition comes to hold; the caller says what it means when it does not.
package func eventually(within time: Duration = patience, _ isSo: () async throws -> Bool) async throws -> Bool {
    let end = ContinuousClock.now + time
    while try await !isSo() {
        guard ContinuousClock.now < end else { return false }
        try await Task.sleep(for: .milliseconds(2))
    }
    return true
}
