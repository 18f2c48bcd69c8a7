/// The kinds of call to the provider that a refresh makes.
struct RefreshCall: Sendable, Equatable {
    /// Whether a refusal of the call proves something about the grant.
    ///
    /// A refusal of a call with a target may concern only the target.
    let provesGrant: Bool
    /// Whether the answer has the session's own access token.
    let bringsOwn: Bool
    /// Whether the call spends the refresh token.
    ///
    /// If its answer is lost, the same call is then made once more, to find out its result.
    let spendsToken: Bool

    /// A refresh of the session's own access token.
    static let plain = RefreshCall(provesGrant: true, bringsOwn: true, spendsToken: true)
    /// A refresh with a target, for another API's token.
    static let targeted = RefreshCall(provesGrant: false, bringsOwn: false, spendsToken: true)
    /// An exchange of the session's own access token for another API's token.
    static let exchange = RefreshCall(provesGrant: false, bringsOwn: false, spendsToken: false)
}
