/// The limits of a move.
struct MoveInPatience: Sendable {
    /// The longest wait for a refresh of the old SDK.
    var refresh = Duration.seconds(30)
    /// The longest wait for an answer of the broker, which may need 20 seconds.
    var answer = Duration.seconds(30)
    /// The time for all pauses together.
    var pauses = Duration.seconds(600)
    /// The random part of a pause, so that many phones repeat at different moments.
    var random: @Sendable () -> Duration = { .milliseconds(Int.random(in: 0...60_000)) }
    var pause: @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) }
}
