/// A provider's settings: the provider's defaults, with the values that the control API has set.
///
/// Lifetimes are in seconds.
struct Settings: Sendable {
    var json: JSON

    /// The defaults of an authorization server.
    static let base: JSON = [
        "access_token_lifetime": 3600, "refresh_token_lifetime": 2_592_000, "id_token_lifetime": 3600,
        "code_lifetime": 600, "alg": "ES256", "refresh_mode": "rotate", "refresh_token": "always",
        "access_token_format": "opaque", "id_token_on_refresh": true, "iss_parameter": true, "require_pkce": false,
        "require_par": false, "basic_encoding": "form", "unknown_clients": "public", "sso": true, "end_session": "asks",
        "profile": "off", "step_up": "honours", "dpop": "off", "nonces": "off", "nonce_status": 400,
        "spends_before_proof": false, "resources": "granted", "exchange": "confidential", "voids_older_tokens": false,
        "token_prefix": "",
    ]

    func text(_ name: String) -> String { json[name]?.text ?? "" }
    func flag(_ name: String) -> Bool { json[name]?.flag ?? false }

    /// Returns a setting in seconds, possibly with a fraction.
    func seconds(_ name: String) -> Double {
        switch json[name] {
        case .int(let value): Double(value)
        case .raw(let value): Double(value) ?? 0
        default: 0
        }
    }
}
