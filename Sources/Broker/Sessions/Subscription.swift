/// An event stream's entry in `SessionNotices`; the entry is removed when the last holder releases this object.
package final class Subscription: Sendable {
    private let end: @Sendable () -> Void

    init(end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}
