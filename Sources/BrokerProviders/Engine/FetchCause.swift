/// The reason why a newer document is needed.
enum FetchCause: Sendable {
    /// A token in an answer of the provider itself.
    case provider
    /// A token that any stranger can send.
    ///
    /// Fetches for such tokens have a bucket of their own, so strangers cannot use up the fetches for logins.
    case anybody
}
