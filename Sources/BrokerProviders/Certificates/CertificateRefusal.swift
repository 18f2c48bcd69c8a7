import NIOHTTP1
import NIOSSL

/// Tells that a server refuses the certificate which was shown to it: the operator's fault, and nobody's who is signed in.
enum CertificateRefusal {
    /// The alerts that speak of a certificate (RFC 8446 section 6.2), in the registry's words.
    private static let alerts: [Int: String] = [
        42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked", 45: "certificate_expired",
        46: "certificate_unknown", 48: "unknown_ca", 49: "access_denied", 116: "certificate_required",
    ]

    /// Returns the alert's name where an error is a server's refusal.
    ///
    /// TLS 1.3 brings it behind the handshake, when the request may be written: the server has not read it.
    static func alert(_ error: any Error) -> String? {
        let stack: NIOBoringSSLErrorStack
        switch error {
        case NIOSSLError.handshakeFailed(.sslError(let errors)), BoringSSLError.sslError(let errors): stack = errors
        default: return nil
        }
        return stack.lazy.compactMap { number(in: $0.description).flatMap { alerts[$0] } }.first
    }

    /// Returns the number of a received alert in an error's text, `… error:100003f1:SSL routines:…`: BoringSSL's own code has
    /// it in its reason, from 1000 on, and is told in no other way.
    private static func number(in text: String) -> Int? {
        guard let start = text.firstRange(of: "error:")?.upperBound,
            let code = UInt32(text[start...].prefix { $0.isHexDigit }, radix: 16)
        else { return nil }
        let reason = Int(code & 0xFFF)
        // The library number of TLS.
        return code >> 24 == 16 && (1000...1255).contains(reason) ? reason - 1000 : nil
    }

    /// Whether an answer is the refusal of who ends TLS in front of the server: nginx says it with a status of its own, or
    /// with 400 and a page.
    static func isPage(_ answer: ProviderAnswer) -> Bool {
        if [495, 496].contains(answer.status) { return true }
        guard answer.status == 400, answer.mediaType == "text/html", answer.body.count <= 4096 else { return false }
        return String(decoding: answer.body, as: UTF8.self).contains("SSL certificate")
    }
}
