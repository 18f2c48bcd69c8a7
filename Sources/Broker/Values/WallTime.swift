/// A moment of the calendar: milliseconds since 1970-01-01 UTC, in 64 bits (SEC-128).
package struct WallTime: Sendable, Hashable, Comparable {
    /// Milliseconds since 1970 UTC.
    package let milliseconds: Int64

    /// Creates a moment from milliseconds since 1970 UTC.
    package init(milliseconds: Int64) { self.milliseconds = milliseconds }

    /// Creates a moment from whole seconds since 1970 UTC; saturates.
    package init(seconds: Int64) {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        milliseconds = overflow ? (seconds < 0 ? .min : .max) : product
    }

    /// Whole seconds since 1970 UTC, rounded down.
    package var seconds: Int64 {
        let quotient = milliseconds / 1000
        return milliseconds % 1000 < 0 ? quotient - 1 : quotient
    }

    /// Returns the moment `duration` later (or earlier, when negative); saturates.
    package func advanced(by duration: Duration) -> WallTime {
        let (sum, overflow) = milliseconds.addingReportingOverflow(duration.wholeMilliseconds)
        return WallTime(milliseconds: overflow ? (duration < .zero ? .min : .max) : sum)
    }

    /// Returns how long after `earlier` this moment is; negative when before; saturates.
    package func since(_ earlier: WallTime) -> Duration {
        let (difference, overflow) = milliseconds.subtractingReportingOverflow(earlier.milliseconds)
        return .milliseconds(overflow ? (self < earlier ? Int64.min : Int64.max) : difference)
    }

    package static func < (left: WallTime, right: WallTime) -> Bool { left.milliseconds < right.milliseconds }
}

extension Duration {
    /// Whole milliseconds, rounded towards zero; saturates.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        guard !overflow else { return seconds < 0 ? .min : .max }
        let (sum, overflowed) = product.addingReportingOverflow(attoseconds / 1_000_000_000_000_000)
        return overflowed ? (seconds < 0 ? .min : .max) : sum
    }

    /// Whole seconds, rounded towards zero.
    package var wholeSeconds: Int64 { components.seconds }
}
