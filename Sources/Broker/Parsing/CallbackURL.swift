/// The URL with which a provider returned to the app, parsed once and strictly (SEC-12).
///
/// It is never fetched.
package struct CallbackURL: Sendable {
    /// Everything before the answer's parameters, byte for byte: what must equal the login's redirect URI, with the query
    /// part that it was registered with.
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

    /// Parses a text; `queries` are the registered redirect URIs with a query part, which comes back before the answer's
    /// own parameters and is none of them: `scheme:` then printable ASCII without backslash, space, user information or fragment.
    package init(parsing text: String, queries: [String] = []) throws(Failure) {
        guard text.utf8.count <= Self.maximumBytes else { throw .tooLong }
        // Raw bytes outside printable ASCII, quotes, brackets and backslashes have no place in a URL (RFC 3986).
        let forbidden: Set<UInt8> = Set("\"<>\\^`{|}".utf8)
        guard text.utf8.allSatisfy({ (0x21...0x7E).contains($0) && !forbidden.contains($0) }) else { throw .malformed }
        guard !text.contains("#") else { throw .fragment }
        let mark = text.firstIndex(of: "?") ?? text.endIndex
        let base = String(text[..<mark])
        guard let uri = RedirectURI(base) else { throw base.contains("@") ? .userInfo : .malformed }
        let whole = mark == text.endIndex ? "" : String(text[text.index(after: mark)...])
        let registered = queries.first { registered in
            let own = uri.registration + "?" + whole
            guard own.utf8.starts(with: registered.utf8) else { return false }
            let rest = own.utf8.dropFirst(registered.utf8.count)
            return rest.isEmpty || rest.first == UInt8(ascii: "&")
        }
        let query: String
        if let registered, let start = registered.firstIndex(of: "?") {
            let part = String(registered[registered.index(after: start)...])
            target = base + "?" + part
            query = String(decoding: whole.utf8.dropFirst(part.utf8.count + 1), as: UTF8.self)
        } else {
            target = base
            query = whole
        }
        do { parameters = try FormPairs(parsing: query) } catch {
            if case .duplicate(let name) = error { throw .duplicate(name) }
            throw .malformed
        }
    }
}

extension FormPairs {
    /// A callback's parameters without those that the protocol itself uses.
    var providersOwn: [(name: String, value: String)] {
        let protocolNames: Set<String> = [
            "code", "state", "iss", "error", "error_description", "error_uri", "scope", "session_state",
        ]
        return pairs.filter { !protocolNames.contains($0.name) }
    }
}
