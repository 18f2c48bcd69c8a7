/// The setting `move_in` of a client, as far as the module `Broker` needs it.
package struct MoveInPolicy: Sendable, Equatable {
    /// The name of the old system's session cookie; nil if the app sends the token in the body only.
    package var cookie: String?
    /// The time when the move ends.
    package var until: WallTime
    /// Whether the old system may name the user of a session that lacks a refresh token (`subject: believed`).
    package var isBelieved: Bool
    /// The number of moves that one address may begin in a minute; nil for the limit of logins.
    package var perMinute: Int?

    package init(until: WallTime, cookie: String? = nil, isBelieved: Bool = false, perMinute: Int? = nil) {
        self.until = until
        self.cookie = cookie
        self.isBelieved = isBelieved
        self.perMinute = perMinute
    }
}
