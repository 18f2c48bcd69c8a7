/// The monotonic time for timing claims.
package enum MonotonicTime {
    private static let start = ContinuousClock.now

    /// Returns the time since this process first called it.
    package static func now() -> Duration { start.duration(to: .now) }
}
