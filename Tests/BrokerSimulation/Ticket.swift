import Broker

/// A session that an app got with a 201, and the later answers about it.
///
/// A ticket of a hand-over is a `HandoverTicket`.
final class Ticket: @unchecked Sendable {
    let token: Secret
    let digest: Digest
    /// The time of the answer to the session's log-out, and the process that answered.
    var loggedOut: (at: Int, by: SimulatedProcess)?
    /// The time when another child replaced this child, and the process that made the other child.
    var replaced: (at: Int, by: SimulatedProcess)?
    /// Whether a log-out was requested, answered or not.
    var logOutAsked = false
    /// The time of the latest sign-in that an answer has shown, in seconds.
    var signedInAt: Int64 = 0
    /// The time of the session's last use.
    var usedAt: Int
    /// The time of the last answered use of this session or of its child.
    var answeredAt: Int?
    /// The parent of a child session.
    let parent: Ticket?
    /// Whether this is the session of a web page.
    let isPage: Bool
    /// The phone whose key the session belongs to; nil for an unbound session.
    let phone: Phone?
    /// Whether the app knows that its presence key is registered.
    var hasPresenceKey = false
    /// The last page that the app's web view opened with a session of its own.
    var page: Ticket?

    /// The session whose tokens this session uses: its parent, or itself.
    var holder: Ticket { parent ?? self }

    init(
        token: Secret, digest: Digest, at moment: Int, parent: Ticket? = nil, isPage: Bool = false, phone: Phone? = nil
    ) {
        self.token = token
        self.isPage = isPage
        self.phone = phone
        self.parent = parent
        self.digest = digest
        usedAt = moment
    }
}
