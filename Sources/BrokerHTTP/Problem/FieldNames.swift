import HTTPTypes

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
