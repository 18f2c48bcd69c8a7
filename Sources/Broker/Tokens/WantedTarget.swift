/// The API that a flight's access token is for.
struct WantedTarget: Sendable {
    let target: TokenTarget
    /// The key of the row with the session's access token for `target`.
    let key: Digest

    /// The goal of a refresh that brings the token.
    var goal: any FlightGoal {
        switch target.grant {
        case .refresh: RefreshedTarget(wanted: self)
        case .exchange: ExchangedTarget(wanted: self)
        }
    }
}
