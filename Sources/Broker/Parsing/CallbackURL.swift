/// The URL with which a provider returned to the app, parsed once and strictly (SEC-12).
///
/// It is never fetched.
package struct CallbackURL: Sendable {
    /// Everything before the answer's parameters, byte for byte: what must equal the login's redirect URI, with the query
    /// part that it was registered with.
    package let target: String
    /// The query's parameters; no name stands twice (SEC-11).
    package let parameters: FormPairs

    /// The reason for which a text is not a callback URL.
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
        guard text.utf8.allSatisfy(URLByte.isAllowed) else { throw .malformed }
        guard !text.utf8.contains(URLByte.hash) else { throw .fragment }
        let mark = text.utf8.firstIndex(of: URLByte.question) ?? text.endIndex
        let base = String(text[..<mark])
        guard let uri = RedirectURI(base) else { throw base.utf8.contains(URLByte.at) ? .userInfo : .malformed }
        let whole = mark == text.endIndex ? "" : String(text[text.utf8.index(after: mark)...])
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

/// The error in a callback (RFC 6749 section 4.1.2.1), in whichever dialect the provider tells it.
package struct CallbackError: Sendable, Equatable {
    /// The provider's word for it; of no use but to be compared.
    package let code: String

    /// Reads a callback's parameters; nil when they tell of no error.
    package init?(_ parameters: FormPairs) {
        // Facebook numbers what it cannot start; Twitter says `denied` with the request's own token.
        guard
            let code = parameters["error"] ?? parameters["error_code"]
                ?? parameters["denied"].map({ _ in "user_denied" })
        else { return nil }
        self.code = code
    }

    /// The words that RFC 6749 and OpenID Connect Core define: all that is ever shown or logged of a provider's error.
    private static let standardWords: Set<String> = [
        "invalid_request", "unauthorized_client", "access_denied", "unsupported_response_type", "invalid_scope",
        "server_error", "temporarily_unavailable", "interaction_required", "login_required",
        "account_selection_required", "consent_required", "invalid_request_uri", "invalid_request_object",
        "request_not_supported", "request_uri_not_supported", "registration_not_supported", "invalid_client",
        "invalid_grant", "unsupported_grant_type",
    ]

    /// Returns the word, where it is a standard's; nil otherwise.
    package static func standardWord(_ code: String) -> String? {
        guard code.isASCII, code.utf8.count <= 64, standardWords.contains(code) else { return nil }
        return code
    }
}
