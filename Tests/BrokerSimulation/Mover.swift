import Broker

/// An app that brings its present session to the broker, as a refresh token or as the token of its session at the old system.
final class Mover: @unchecked Sendable {
    /// The broker's last answer to the app.
    enum End {
        case moved, refused, alreadyUsed
        /// The time of `until` is over, so the app keeps its old session.
        case closed
        /// The old system and the provider name different users.
        case mismatched
    }

    /// The refresh token that the session has; nil if the old system lacks one.
    let refreshToken: String?
    /// The session at the old system; nil for an app that has the refresh token itself.
    let old: OldSession?
    var end: End?
    /// The sessions that the app was given for its old session.
    var sessions: Set<Digest> = []

    init(refreshToken: String?, old: OldSession? = nil) {
        self.refreshToken = refreshToken
        self.old = old
    }

    /// The name of the app's session for the judge's lines.
    var name: String { old?.token ?? refreshToken ?? "" }
}
