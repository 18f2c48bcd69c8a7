import NIOHTTP1
import NIOSSL

/// Recognises a server's refusal of the broker's certificate.
///
/// Only the operator can end such refusals, because their cause is the certificate and not the user's sign-in.
enum CertificateRefusal {
    /// The alerts about a certificate (RFC 8446 section 6.2), with the registry's names.
    private static let alerts: [Int: String] = [
        42: "bad_certificate", 43: "unsupported_certificate", 44: "certificate_revoked", 45: "certificate_expired",
        46: "certificate_unknown", 48: "unknown_ca", 49: "access_denied", 116: "certificate_required",
    ]

    /// Returns the alert's name if an error is a server's refusal of the certificate.
    ///
    /// In TLS 1.3 the alert comes after the handshake, when the request may already be written. The server does not read that
    /// request.
    static func alert(_ error: any Error) -> String? {
        let stack: NIOBoringSSLErrorStack
        switch error {
        case NIOSSLError.handshakeFailed(.sslError(let errors)), BoringSSLError.sslError(let errors): stack = errors
        default: return nil
        }
        return stack.lazy.compactMap { number(in: $0.description).flatMap { alerts[$0] } }.first
    }

    /// Returns the number of the received alert, from an error's text `… error:100003f1:SSL routines:…`.
    ///
    /// Only this text contains the number. BoringSSL encodes an alert as the reason 1000 plus the alert's number.
    private static func number(in text: String) -> Int? {
        guard let start = text.firstRange(of: "error:")?.upperBound,
            let code = UInt32(text[start...].prefix { $0.isHexDigit }, radix: 16)
        else { return nil }
        let reason = Int(code & 0xFFF)
        // 16 is BoringSSL's number for errors of TLS (`ERR_LIB_SSL`).
        return code >> 24 == 16 && (1000...1255).contains(reason) ? reason - 1000 : nil
    }

    /// Returns whether the certificate was refused in an HTTP answer, by a proxy that terminates TLS in front of the server.
    ///
    /// nginx answers with its own status 495 or 496, or with 400 and an HTML page.
    static func isPage(_ answer: ProviderAnswer) -> Bool {
        if [495, 496].contains(answer.status) { return true }
        guard answer.status == 400, answer.mediaType == "text/html", answer.body.count <= 4096 else { return false }
        return String(decoding: answer.body, as: UTF8.self).contains("SSL certificate")
    }
}
