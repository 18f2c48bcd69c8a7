import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A session for another process of the app, with its token.
public struct Child: Sendable, Hashable {
    /// The session: its `kind` and `parent` say whose it is.
    public let session: Session
    /// The token, which that process sends as `Authorization: Bearer`.
    public let token: String
}

/// The cookie that a web view's store has to have before it loads the address of a hand-over.
public struct HandOverCookie: Sendable, Hashable {
    /// The origin that it is for.
    public let origin: URL
    /// Its name.
    public let name: String
    /// Its value: a secret of this hand-over.
    public let value: String

    /// The cookie as a store takes it; nil for an origin without a host.
    public var httpCookie: HTTPCookie? {
        guard let host = origin.host else { return nil }
        var properties: [HTTPCookiePropertyKey: Any] = [
            .name: name, .value: value, .domain: host, .path: "/", .maximumAge: "60", .version: "1",
        ]
        // By their names: not every Foundation has a constant for them.
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

    /// Makes a session for a widget, a watch or an extension behind this one: one refresh serves both, and it ends with this
    /// one.
    ///
    /// `kind` is the configuration's word, `name` says which; the one that had this place before has ended. Of a bound session
    /// `jkt`, the thumbprint of the child's own key, is needed.
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

    /// Hands the session over to a page in a web view of the app's own, and returns the address to load there.
    ///
    /// `put` sets the cookie in the web view's store and returns when it is in (`WKHTTPCookieStore.setCookie`): the address is
    /// worth nothing without it. A page that shows `verifier_mismatch` was loaded before that: load the address once more.
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
