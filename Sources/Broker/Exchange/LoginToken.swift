/// Checks login tokens that an app chose for itself (flow B): 43–128 base64url characters.
enum LoginToken {
    /// Returns the token, or throws when it is malformed.
    static func checked(_ token: Secret?) throws(BrokerProblem) -> Secret? {
        guard let token else { return nil }
        guard Base64URL.isToken(token.reveal(), length: 43...128) else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("/login_token", .malformed)])
        }
        return token
    }
}
