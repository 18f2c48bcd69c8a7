/// The decoded members of `POST /v1/sessions`; all are optional here, because the use case decides the flow.
package struct ForwardCodeInput: Sendable {
    package var callbackURL: String?
    package var handoff: Secret?
    package var provider: ProviderName?
    package var client: ClientName?
    package var code: Secret?
    /// An id_token that the app got from a native SDK.
    package var idToken: Secret?
    package var redirectURI: String?
    package var codeVerifier: Secret?
    package var state: Secret?
    package var nonce: Secret?
    /// The scope of the app's own authorization request (flow B).
    package var scope: [String]?
    /// The login token from the body, or from the login cookie if the body has none.
    package var loginToken: Secret?
    /// The user's name for this device, at most 64 characters.
    package var device: String?
    /// Tokens to import, which the app already holds.
    package var tokens: ImportedTokens?
    /// The token of the app's session at the old system.
    package var legacy: LegacyToken?
    /// The session token of the request, which belongs to the device's old session.
    ///
    /// The new session replaces it.
    package var presentedSession: Secret?
    package var charge = Charge.nobody
    /// The proof of the key that the session is to belong to.
    package var evidence = PresentedEvidence.none

    package init() {}
}

extension ForwardCodeInput {
    /// The one value that a body forwards.
    enum Forwarded: Sendable {
        case callback(String)
        case handoff(Secret)
        case code(Secret)
        case idToken(Secret)
        case tokens(ImportedTokens)
        case legacy(LegacyToken)

        /// The member of the body that holds the value.
        var pointer: String {
            switch self {
            case .callback: "/callback_url"
            case .handoff: "/handoff"
            case .code: "/code"
            case .idToken: "/id_token"
            case .tokens: "/tokens"
            case .legacy: "/legacy"
            }
        }
    }

    /// Returns the forwarded value; throws `invalid_request` unless there is exactly one.
    func forwarded() throws(BrokerProblem) -> Forwarded {
        let brought: [Forwarded?] = [
            callbackURL.map { .callback($0) }, handoff.map { .handoff($0) }, code.map { .code($0) },
            idToken.map { .idToken($0) }, tokens.map { .tokens($0) },
            legacy.map { .legacy($0) },
        ]
        let found = brought.compactMap(\.self)
        guard let first = found.first else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("/callback_url", .required)]))
        }
        guard found.count == 1 else {
            throw BrokerProblem(
                .invalidRequest, with: .fields(found.dropFirst().map { FieldFault($0.pointer, .conflict) }))
        }
        return first
    }
}
