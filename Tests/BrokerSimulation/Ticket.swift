import Broker

/// A session as its app knows it: the session token from the 201 answer, and the facts from later answers.
///
/// The ticket of a hand-over is another type, `HandoverTicket`.
final class Ticket: @unchecked Sendable {
    let token: Secret
    let digest: Digest
    /// The moment when the log-out of the session was answered, and the process that answered it.
    var loggedOut: (at: Int, by: SimulatedProcess)?
    /// The moment when another child took this child's place, and the process that made the other child.
    var replaced: (at: Int, by: SimulatedProcess)?
    /// Whether the app has requested a log-out, even if no answer came.
    var logOutAsked = false
    /// The time of the latest sign-in in the answers to the app, in seconds.
    var signedInAt: Int64 = 0
    /// The moment when the app last used the session.
    var usedAt: Int
    /// The moment of the last use of this session or of its child that the broker answered.
    var answeredAt: Int?
    /// The session that this child depends on; nil if this session is no child.
    let parent: Ticket?
    /// Whether this is the child session of a web page.
    let isPage: Bool
    /// The phone whose key the session belongs to; nil for an unbound session.
    let phone: Phone?
    /// Whether the app has received the answer that its presence key is registered.
    var hasPresenceKey = false
    /// The child session of the last page that the app's web view opened.
    var page: Ticket?

    /// The session whose access tokens this session uses: its parent if it is a child, otherwise the session itself.
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
