/// The error in a callback (RFC 6749 section 4.1.2.1), in any provider's dialect.
package struct CallbackError: Sendable, Equatable {
    /// The provider's code for the error, which is only ever compared.
    package let code: String

    /// Reads a callback's parameters; nil if they contain no error.
    package init?(_ parameters: FormPairs) {
        // If Facebook cannot start the sign-in, it sends a number as `error_code`. Twitter sends `denied` with the token of
        // the request.
        guard
            let code = parameters["error"] ?? parameters["error_code"]
                ?? parameters["denied"].map({ _ in "user_denied" })
        else { return nil }
        self.code = code
    }

    /// The error codes of RFC 6749 and OpenID Connect Core.
    ///
    /// Of a provider's error codes, only these are ever shown or logged.
    private static let standardWords: Set<String> = [
        "invalid_request", "unauthorized_client", "access_denied", "unsupported_response_type", "invalid_scope",
        "server_error", "temporarily_unavailable", "interaction_required", "login_required",
        "account_selection_required", "consent_required", "invalid_request_uri", "invalid_request_object",
        "request_not_supported", "request_uri_not_supported", "registration_not_supported", "invalid_client",
        "invalid_grant", "unsupported_grant_type",
    ]

    /// Returns the code if a standard defines it; nil otherwise.
    package static func standardWord(_ code: String) -> String? {
        guard code.isASCII, code.utf8.count <= 64, standardWords.contains(code) else { return nil }
        return code
    }
}
