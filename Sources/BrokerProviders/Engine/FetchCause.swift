/// The reason for which a newer document is wanted than the one at hand.
enum FetchCause: Sendable {
    /// A token that the provider itself has answered with.
    case provider
    /// A token that anybody can send: these never use up what logins need.
    case anybody
}
