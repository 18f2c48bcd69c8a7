/// The mark of a move, which exists from before the first request until the old tokens are erased.
///
/// While the mark exists, all processes of the app leave the old tokens alone.
public struct MoveInMark: Codable, Sendable, Hashable {
    /// The secret of the move: 32 random bytes as base64url.
    ///
    /// Each repeated request contains the same secret, so that the broker returns the same session.
    public let loginToken: String
    /// Whether the last refresh has ended, so that requests may have been sent.
    public internal(set) var posts: Bool

    /// Creates the mark of a new move.
    public init() { (loginToken, posts) = (LoginToken.random(), false) }
}

/// A place on the device for the mark that all processes of the app can read: ``FileMarkStorage``, or your own.
public protocol MarkStorage: Sendable {
    /// Returns the mark of the move in progress, or nil.
    func read() throws -> MoveInMark?
    /// Replaces the mark by the result of `work`, and returns that result once it is durable.
    ///
    /// Nil deletes the mark. Other processes have to wait from the read until the write.
    func change(_ work: (MoveInMark?) -> MoveInMark?) throws -> MoveInMark?
}

extension MarkStorage {
    /// Whether a move is in progress, which forbids a refresh of the old tokens.
    ///
    /// The value is also true if the mark is unreadable at the moment.
    public var isMoving: Bool {
        do { return try read() != nil } catch { return true }
    }

    /// Deletes the mark, for a user who signs out during the move.
    ///
    /// Before this call, cancel the move and erase the old tokens.
    public func remove() throws { _ = try change { _ in nil } }
}
