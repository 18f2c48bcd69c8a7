import Broker

/// The claim `sid`: the provider's own id of a sign-in.
///
/// Only its keyed digest is kept, so its length is the token's concern; some servers encrypt a whole session into it.
enum SignInID {
    private static let longest = 4096

    /// The `sid` of a token.
    enum Claim: Sendable, Equatable {
        case absent
        case id(String)
        /// No text, empty, or too long to be looked up by.
        case unusable
    }

    static func read(_ value: JSONValue?) -> Claim {
        guard let value, !value.isNull else { return .absent }
        guard let text = value.string, (1...longest).contains(text.utf8.count) else { return .unusable }
        return .id(text)
    }
}
