/// The time that never goes back, by which stores time their claims.
package enum MonotonicTime {
    private static let start = ContinuousClock.now

    /// Returns how long ago this process first asked.
    package static func now() -> Duration { start.duration(to: .now) }
}
