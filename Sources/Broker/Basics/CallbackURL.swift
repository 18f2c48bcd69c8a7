/// The URL of a provider's redirect to the app, parsed once and strictly (SEC-12).
///
/// The broker only reads the URL and never fetches it.
package struct CallbackURL: Sendable {
    /// The text before the parameters that the provider added, byte for byte.
    ///
    /// This text must equal the login's redirect URI. If the redirect URI was registered with a query part, the text includes
    /// that part.
    package let target: String
    /// The query's parameters, each name only once (SEC-11).
    package let parameters: FormPairs

    /// The reason why a text is refused as a callback URL.
    package enum Failure: Error, Sendable, Equatable {
        case tooLong, malformed, userInfo, fragment
        /// A fault in the parameters, with a description in the broker's own words.
        case parameters(FormPairs.Failure, String)
    }

    /// The longest accepted callback URL, in bytes.
    package static let maximumBytes = 8192

    /// Parses a text: `scheme:`, then printable ASCII up to the `?`, and after it any bytes except control bytes.
    ///
    /// Backslash, space and user information are refused before the `?`. `names` returns the parameters of the target's
    /// provider. `queries` are the registered redirect URIs with a query part. A provider puts this query part before the
    /// parameters of its answer.
    package init(
        parsing text: String, queries: [String] = [], names: (_ target: String) -> FormNames = { _ in .ofEveryCallback }
    ) throws(Failure) {
        guard text.utf8.count <= Self.maximumBytes else { throw .tooLong }
        guard text.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { throw .malformed }
        let text = try Self.withoutFragment(text)
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
        let query: [UInt8]
        if let registered, let start = registered.firstIndex(of: "?") {
            let part = String(registered[registered.index(after: start)...])
            target = base + "?" + part
            query = Array(whole.utf8.dropFirst(part.utf8.count + 1))
        } else {
            target = base
            query = Array(whole.utf8)
        }
        let names = names(target)
        do throws(FormPairs.Failure) {
            parameters = try FormPairs(reading: names, of: query, where: URLByte.isAllowed)
        } catch { throw .parameters(error, error.text(names)) }
    }

    /// Returns the text before an empty fragment or the `_=_` that Facebook adds.
    ///
    /// Any other fragment is refused, because it may contain an answer of the provider.
    private static func withoutFragment(_ text: String) throws(Failure) -> String {
        guard let hash = text.utf8.firstIndex(of: URLByte.hash) else { return text }
        let fragment = text[text.utf8.index(after: hash)...]
        guard fragment.isEmpty || fragment.hasBytes(of: "_=_") else { throw .fragment }
        return String(text[..<hash])
    }
}

extension FormNames {
    /// The parameters that are read or refused in every provider's callback.
    package static let ofEveryCallback = FormNames(exact: [
        "code", "state", "iss", "error", "error_code", "denied", "access_token", "id_token", "token_type", "response",
    ])
}

extension ProviderKind {
    /// The parameters of callbacks from this kind of provider; those in `loose` contain text for people.
    fileprivate var callbackNames: FormNames {
        switch self {
        case .oidc, .oauth2: FormNames(exact: [])
        case .clever: FormNames(exact: ["district_id"])
        case .clover: FormNames(exact: ["client_id", "merchant_id", "employee_id"])
        case .zephr: FormNames(exact: ["status", "session_id", "state_key", "identifier"], loose: ["message"])
        }
    }
}

extension ProviderDirectory {
    /// Returns the parameters that are read from a provider's callbacks, including those in its clients' settings.
    package func callbackNames(of name: ProviderName?) -> FormNames {
        var names = FormNames.ofEveryCallback
        guard let provider = name.flatMap({ self[$0] }) else { return names }
        let kinds = provider.profile.kind.callbackNames
        names.exact += kinds.exact + provider.callbackHints + provider.profile.clients.flatMap(\.callbackParameters)
        names.loose = kinds.loose
        return names
    }
}

extension FormPairs {
    /// The callback's parameters without those of the protocol itself.
    var providersOwn: [(name: String, value: String)] {
        let protocolNames: Set<String> = [
            "code", "state", "iss", "error", "error_description", "error_uri", "scope", "session_state",
        ]
        return pairs.filter { !protocolNames.contains($0.name) }
    }
}
