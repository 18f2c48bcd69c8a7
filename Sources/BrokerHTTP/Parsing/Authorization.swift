import Broker
import BrokerWire

/// The credentials of an `Authorization` field.
///
/// The mere presence of the field proves nothing (SEC-43).
enum Authorization: Sendable {
    case bearer(Secret)
    /// The scheme Basic, with a name and a secret.
    case basic(name: String, secret: Secret)
    /// An unsupported scheme, or malformed credentials.
    case other

    /// Parses a field's value (RFC 9110 section 11.4).
    init(_ value: String) {
        guard let space = value.firstIndex(of: " ") else {
            self = .other
            return
        }
        let credential = value[space...].drop { $0 == " " }
        // Read `DPoP` like `Bearer`, because only a proof in its own field is evidence, and the scheme is not (RFC 9449 section
        // 7.1).
        let scheme = value[..<space]
        if scheme.isASCIIEqual(to: "bearer") || scheme.isASCIIEqual(to: "dpop"), !credential.isEmpty,
            credential.utf8.count <= 512,
            credential.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        {
            self = .bearer(Secret(String(credential)))
        } else if scheme.isASCIIEqual(to: "basic"), let pair = Self.basic(credential) {
            self = pair
        } else {
            self = .other
        }
    }

    private static func basic(_ credential: Substring) -> Authorization? {
        guard credential.utf8.count <= 1024, let bytes = base64(credential),
            let text = String(validating: bytes, as: UTF8.self), let colon = text.firstIndex(of: ":"),
            // Client id and secret are form-encoded before they are joined (RFC 6749 section 2.3.1).
            let name = FormPairs.decode(text[..<colon].utf8),
            let secret = FormPairs.decode(text[text.index(after: colon)...].utf8)
        else { return nil }
        return .basic(name: name, secret: Secret(secret))
    }

    /// Decodes RFC 4648 base64.
    ///
    /// The alphabet differs from base64url's in two characters, and the padding is required.
    private static func base64(_ text: Substring) -> [UInt8]? {
        let stripped =
            text.utf8.last == UInt8(ascii: "=")
            ? text.dropLast(text.hasSuffix("==") ? 2 : 1) : text
        guard text.utf8.count % 4 == 0, !stripped.contains("-"), !stripped.contains("_") else { return nil }
        return Base64URL.decode(
            String(stripped.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 }))
    }
}
