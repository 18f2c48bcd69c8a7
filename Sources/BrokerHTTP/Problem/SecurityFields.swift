import HTTPTypes

/// The header fields of every answer (SEC-108), made once: a field that is made is checked, and there are several in each.
enum SecurityFields {
    /// Only where `hasStrictTransport` of the listener's rules says so, and then added to the finished answer.
    static let strictTransport = HTTPField(name: .strictTransportSecurity, value: "max-age=31536000; includeSubDomains")
    static let contentSecurity = HTTPField(
        name: .contentSecurityPolicy, value: "default-src 'none'; frame-ancestors 'none'")
    /// Of a relayed answer: a page of the upstream's is served from our origin, and may do nothing there, whatever the
    /// first directive leaves out.
    static let relayedContentSecurity = HTTPField(name: .contentSecurityPolicy, value: relayed + "; sandbox")
    /// Of a relayed PDF, which browsers show by a program of their own, and not in a sandbox.
    static let relayedPDFSecurity = HTTPField(name: .contentSecurityPolicy, value: relayed)
    private static let relayed = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    static let contentType = HTTPField(name: .xContentTypeOptions, value: "nosniff")
    static let referrer = HTTPField(name: .referrerPolicy, value: "no-referrer")

    /// Those that every answer has.
    static let all = [contentSecurity, contentType, referrer]
}

/// Further fields with constant values.
enum ConstantFields {
    static let noStore = HTTPField(name: .cacheControl, value: "no-store")
    static let json = HTTPField(name: .contentType, value: "application/json")
    static let problem = HTTPField(name: .contentType, value: "application/problem+json")
    static let eventStream = HTTPField(name: .contentType, value: "text/event-stream")
    static let varyOrigin = HTTPField(name: .vary, value: "Origin")
    static let allowCredentials = HTTPField(name: .accessControlAllowCredentials, value: "true")
    static let exposeHeaders = HTTPField(
        name: .accessControlExposeHeaders,
        value: "X-Request-Id, Retry-After, Coatcheck-Source, Coatcheck-Code, DPoP-Nonce, WWW-Authenticate")
    static let sourceBroker = HTTPField(name: .coatcheckSource, value: "broker")
    static let bearerChallenge = HTTPField(name: .wwwAuthenticate, value: "Bearer realm=\"coatcheck\"")
    static let backendChallenge = HTTPField(name: .wwwAuthenticate, value: "Bearer realm=\"coatcheck-backend\"")
    static let basicChallenge = HTTPField(name: .wwwAuthenticate, value: "Basic realm=\"coatcheck-backend\"")
}

// Names that HTTPTypes does not have. `Name(_:)` is optional only for names that are no tokens; these are, and a typing
// mistake would be caught by the first test that makes an answer.
extension HTTPField.Name {
    private static func known(_ name: StaticString) -> HTTPField.Name {
        HTTPField.Name(name.description) ?? .server
    }

    static let requestID = known("X-Request-Id")
    static let referrerPolicy = known("Referrer-Policy")
    static let coatcheckSource = known("Coatcheck-Source")
    static let coatcheckReason = known("Coatcheck-Reason")
    static let coatcheckCode = known("Coatcheck-Code")
    static let dpopNonce = known("DPoP-Nonce")
    static let traceparent = known("traceparent")
    static let authSubject = known("X-Auth-Subject")
    static let authProvider = known("X-Auth-Provider")
    static let authClient = known("X-Auth-Client")
    static let authSession = known("X-Auth-Session")
    static let authName = known("X-Auth-Name")
    static let authEmail = known("X-Auth-Email")
    static let authScope = known("X-Auth-Scope")
    static let authToken = known("X-Auth-Token")
}
