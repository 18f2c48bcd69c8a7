/// The names of secrets in bodies, queries and callbacks.
enum SecretNames {
    private static let names: Set<String> = [
        "access_token", "refresh_token", "id_token", "code", "state", "nonce", "code_verifier", "code_challenge",
        "client_secret", "client_assertion", "login_token", "session_token", "handoff", "state_key", "session_id",
        "token", "recovery_token", "token_exchange", "id_token_hint", "subject_token", "tracking_id", "logout_token",
    ]

    /// Whether the value of this name is a secret.
    ///
    /// The `code` of a problem document is a plain word, unlike an authorization code.
    static func holdsSecret(_ name: String, _ value: String) -> Bool {
        guard names.contains(name.lowercased()) else { return false }
        return name != "code" || !value.utf8.allSatisfy { $0 == UInt8(ascii: "_") || isLower($0) }
    }

    /// The shell variable for a secret of this name.
    static func variable(_ name: String) -> String {
        switch name.lowercased() {
        case "callback_url": "CALLBACK"
        case "state_key": "KEY"
        default: String(name.uppercased().map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
        }
    }

    private static func isLower(_ byte: UInt8) -> Bool { (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte) }
}
