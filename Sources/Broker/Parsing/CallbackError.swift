/// The error in a callback (RFC 6749 section 4.1.2.1), in whichever dialect the provider tells it.
package struct CallbackError: Sendable, Equatable {
    /// What the provider says; of no use but to be compared.
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
