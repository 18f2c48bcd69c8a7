import Broker
import Crypto
import FoundationEssentials

/// Computes the thumbprint that identifies a certificate in the header of a signed token (RFC 7515 section 4.1.8).
package enum CertificateThumbprint {
    /// Returns the base64url SHA-256 of the first certificate in a PEM text; nil if the text is not PEM.
    package static func first(inPEM text: String) -> String? {
        let begin = "-----BEGIN CERTIFICATE-----"
        guard let start = text.firstRange(of: begin)?.upperBound,
            let end = text[start...].firstRange(of: "-----END CERTIFICATE-----")?.lowerBound
        else { return nil }
        let body = text[start..<end].filter { !$0.isWhitespace && !$0.isNewline }
        guard !body.isEmpty, let bytes = Data(base64Encoded: String(body)), !bytes.isEmpty else { return nil }
        return Base64URL.encode(Array(SHA256.hash(data: bytes)))
    }
}
