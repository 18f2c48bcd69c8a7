import Broker

/// A session that an app was given with a 201, and what it was told since.
final class Ticket: @unchecked Sendable {
    let token: Secret
    let digest: Digest
    /// The time at which its log-out was answered, and by whom.
    var loggedOut: (at: Int, by: SimulatedProcess)?
    /// The time and process of the child that took its place.
    var replaced: (at: Int, by: SimulatedProcess)?
    /// Whether a log-out was asked for, answered or not.
    var logOutAsked = false
    /// The latest sign-in that an answer has told of, in seconds.
    var signedInAt: Int64 = 0
    /// The time at which it was used last.
    var usedAt: Int
    /// The time at which a use of it, or of its child, was last answered.
    var answeredAt: Int?
    /// The session that it is a child of.
    let parent: Ticket?
    /// Whether it is a web page's session.
    let isPage: Bool

    /// The session whose tokens it uses.
    var holder: Ticket { parent ?? self }

    init(token: Secret, digest: Digest, at moment: Int, parent: Ticket? = nil, isPage: Bool = false) {
        self.token = token
        self.isPage = isPage
        self.parent = parent
        self.digest = digest
        usedAt = moment
    }
}
