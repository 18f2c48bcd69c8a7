/// An OAuth error that becomes the answer (RFC 6749 section 5.2).
struct OAuthFailure: Error {
    var status = 400
    let error: String
    let description: String

    static func request(_ description: String) -> OAuthFailure {
        .init(error: "invalid_request", description: description)
    }
    static func grant(_ description: String) -> OAuthFailure { .init(error: "invalid_grant", description: description) }
    static func client(_ description: String) -> OAuthFailure {
        .init(status: 401, error: "invalid_client", description: description)
    }
}
