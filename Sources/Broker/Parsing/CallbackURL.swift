/// The URL with which a provider returned to the app, parsed once and strictly (SEC-12).
///
/// It is never fetched.
package struct CallbackURL: Sendable {
    /// Everything before the query, byte for byte: what must equal the login's redirect URI.
    package let target: String
    /// The query's parameters; no name stands twice (SEC-11).
    package let parameters: FormPairs

    /// Why a text is not a callback URL.
    package enum Failure: Error, Sendable, Equatable {
        case tooLong, malformed, userInfo, fragment
        /// A parameter that stands twice.
        case duplicate(String)
    }

    /// The longest callback URL taken, in bytes.
    package static let maximumBytes = 8192

    /// Parses a text: `scheme:` then printable ASCII without backslash, space, user information or fragment.
    package init(parsing text: String) throws(Failure) {
        guard text.utf8.count <= Self.maximumBytes else { throw .tooLong }
        // Raw bytes outside printable ASCII, quotes, brackets and backslashes have no place in a URL (RFC 3986).
        let forbidden: Set<UInt8> = Set("\"<>\\^`{|}".utf8)
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !forbidden.contains($0) }) else { throw .malformed }
        guard !text.contains("#") else { throw .fragment }
        let split = text.firstIndex(of: "?") ?? text.endIndex
        target = String(text[..<split])
        guard RedirectURI(target) != nil else { throw target.contains("@") ? .userInfo : .malformed }
        let query = split == text.endIndex ? "" : String(text[text.index(after: split)...])
        do { parameters = try FormPairs(parsing: query) } catch {
            if case .duplicate(let name) = error { throw .duplicate(name) }
            throw .malformed
        }
    }
}
