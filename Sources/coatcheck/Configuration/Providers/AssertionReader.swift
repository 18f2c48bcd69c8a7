import Broker
import BrokerProviders
import Crypto
import FoundationEssentials

/// Reads how a client's signed proof looks (`assertion`).
enum AssertionReader {
    static func read(_ section: ConfigSection, into settings: inout AssertionSettings) {
        if let audience = section.text("audience", limit: 2048) {
            switch audience {
            case "issuer": settings.audience = .issuer
            case "token_endpoint": settings.audience = .tokenEndpoint
            case "endpoint": settings.audience = .endpoint
            default:
                if let url = WebURL(audience), url.isSecure || url.isLoopback {
                    settings.audience = .url(audience)
                } else {
                    section.report("audience", "has to be `issuer`, `token_endpoint`, `endpoint` or an https URL")
                }
            }
        }
        if let type = section.text("typ", limit: 64) {
            if type.utf8.allSatisfy({ (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }) {
                settings.type = type
            } else {
                section.report("typ", "has to be a media type such as `JWT`")
            }
        }
        settings.keyHeader = section.choice("key_header", as: AssertionSettings.KeyHeader.self) ?? settings.keyHeader
        let certificate = section.section("certificate")
        if section.has("certificate") { certificate.require("file") }
        guard let file = certificate.readableFile("file") else { return }
        guard let thumbprint = thumbprint(String(decoding: file.bytes, as: UTF8.self)) else {
            certificate.report("file", "names a file without a certificate in PEM")
            return
        }
        settings.thumbprint = thumbprint
    }

    /// The base64url SHA-256 of the first certificate (RFC 7515 section 4.1.8).
    private static func thumbprint(_ text: String) -> String? {
        let begin = "-----BEGIN CERTIFICATE-----"
        guard let start = text.firstRange(of: begin)?.upperBound,
            let end = text[start...].firstRange(of: "-----END CERTIFICATE-----")?.lowerBound
        else { return nil }
        let body = text[start..<end].filter { !$0.isWhitespace && !$0.isNewline }
        guard !body.isEmpty, let bytes = Data(base64Encoded: String(body)), !bytes.isEmpty else { return nil }
        return Base64URL.encode(Array(SHA256.hash(data: bytes)))
    }
}
