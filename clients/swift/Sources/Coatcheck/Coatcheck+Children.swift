import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A child session for another process of the app, with its token.
public struct Child: Sendable, Hashable {
    /// The child session, with its `kind` and the handle of its `parent`.
    public let session: Session
    /// The child's session token, which the other process sends as `Authorization: Bearer`.
    public let token: String
}

/// The cookie of a hand-over.
///
/// The web view's store must contain the cookie before the web view loads the address from `handOver`.
public struct HandOverCookie: Sendable, Hashable {
    /// The origin of the cookie.
    public let origin: URL
    /// The cookie's name.
    public let name: String
    /// The cookie's value, which is a secret of this hand-over.
    public let value: String

    /// The cookie in the form that a cookie store accepts, or nil for an origin without a host.
    public var httpCookie: HTTPCookie? {
        guard let host = origin.host else { return nil }
        var properties: [HTTPCookiePropertyKey: Any] = [
            .name: name, .value: value, .domain: host, .path: "/", .maximumAge: "60", .version: "1",
        ]
        // Set by name, because some versions of Foundation lack the constants.
        properties[HTTPCookiePropertyKey("HttpOnly")] = "TRUE"
        properties[HTTPCookiePropertyKey("SameSite")] = "strict"
        if origin.scheme == "https" { properties[.secure] = "TRUE" }
        return HTTPCookie(properties: properties)
    }
}

extension Coatcheck {
    private struct ChildBody: Encodable {
        var kind: String
        var name: String
        var device: String?
        var jkt: String?
    }

    private struct ChildToken: Decodable { var session_token: String }

    /// Makes a child session of this session, for a widget, a watch or an extension.
    ///
    /// One refresh serves both sessions, and the child ends with this session. `kind` is a child kind of the broker's
    /// configuration, and `name` identifies the process. An earlier child with the same kind and name ends. If this
    /// session is bound, set `jkt` to the thumbprint of the child's own key.
    public func child(
        kind: String, name: String, device: String? = nil, jkt: String? = nil
    ) async throws -> Child {
        let body = try JSONEncoder().encode(ChildBody(kind: kind, name: name, device: device, jkt: jkt))
        let answer = try await call(
            Call(
                method: "POST", path: "/v1/session/children", fields: ["Content-Type": "application/json"], body: body,
                evidence: .proof))
        return Child(
            session: try answer.decoded(Session.self), token: try answer.decoded(ChildToken.self).session_token)
    }

    private struct HandOverBody: Encodable {
        var origin: String
        var path: String
        var challenge: String
    }

    private struct HandOverAddress: Decodable { var url: String }

    /// Hands the session over to a page in the app's own web view, and returns the address to load.
    ///
    /// `put` sets the cookie in the web view's store and returns after it is stored (`WKHTTPCookieStore.setCookie`). The
    /// address is useless without the cookie. If the page shows `verifier_mismatch`, the web view loaded the address
    /// before it had the cookie. In this case, load the address once more.
    public func handOver(
        to origin: URL, path: String = "/", putting put: @Sendable (HandOverCookie) async throws -> Void
    ) async throws -> URL {
        let secret = LoginToken.random()
        var text = origin.absoluteString
        if text.hasSuffix("/") { text.removeLast() }
        let challenge = SHA256.digest(of: Data(secret.utf8)).base64URL
        let body = try JSONEncoder().encode(HandOverBody(origin: text, path: path, challenge: challenge))
        let answer = try await call(
            Call(
                method: "POST", path: "/v1/session/handovers", fields: ["Content-Type": "application/json"], body: body,
                evidence: .proof))
        let prefix = origin.scheme == "https" ? "__Host-" : ""
        try await put(HandOverCookie(origin: origin, name: "\(prefix)coatcheck-handover", value: secret))
        guard let url = URL(string: try answer.decoded(HandOverAddress.self).url) else { throw URLError(.badURL) }
        return url
    }
}
