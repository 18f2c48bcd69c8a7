/// The kinds of call to the provider that a refresh makes.
enum RefreshCall: Sendable, Equatable {
    /// A refresh of the session's own access token.
    case plain
    /// A refresh with a target, for another API's token.
    case targeted
    /// An exchange of the session's own access token for another API's token.
    case exchange

    /// Whether a refusal of the call proves something about the grant.
    ///
    /// A refusal of a call with a target may concern only the target.
    var provesGrant: Bool { self == .plain }

    /// Whether the answer has the session's own access token.
    var bringsOwn: Bool { self == .plain }

    /// Whether the call spends the refresh token.
    ///
    /// If its answer is lost, the same call is then made once more, to find out its result.
    var spendsToken: Bool { self != .exchange }
}
