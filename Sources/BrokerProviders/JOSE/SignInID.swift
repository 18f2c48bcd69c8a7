import Broker

/// The claim `sid`, which is the provider's own id of a sign-in.
///
/// The store contains only the keyed digest of the `sid`, so the `sid` may be long. Some servers encrypt a whole session into
/// the `sid`.
enum SignInID {
    private static let longest = 4096

    /// The result of reading a token's claim `sid`.
    enum Claim: Sendable, Equatable {
        case absent
        case id(String)
        /// A value that is empty, too long for lookups, or not a text.
        case unusable
    }

    static func read(_ value: JSONValue?) -> Claim {
        guard let value, !value.isNull else { return .absent }
        guard let text = value.string, (1...longest).contains(text.utf8.count) else { return .unusable }
        return .id(text)
    }
}
