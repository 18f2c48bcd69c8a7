import Crypto
import Glibc

/// A device's key in a PEM file, and the DPoP proofs that it makes (RFC 9449 section 4.2), for trying bound sessions by
/// hand.
package struct DeviceProof: Sendable {
    /// The reason why no proof can be made, as a sentence for the user.
    package struct Fault: Error, CustomStringConvertible {
        package let description: String
    }

    /// A number of bytes that is larger than the PEM text of any P-256 key.
    private static let longestFile = 4096

    private let key: P256.Signing.PrivateKey

    /// Reads the key from a file.
    ///
    /// If the file is absent, creates it, readable only for its owner.
    package init(keyFile path: String) throws(Fault) {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        if descriptor >= 0 {
            defer { close(descriptor) }
            key = P256.Signing.PrivateKey()
            let text = Array((key.pemRepresentation + "\n").utf8)
            guard text.withUnsafeBytes({ write(descriptor, $0.baseAddress, $0.count) }) == text.count else {
                throw Self.fault(path)
            }
            return
        }
        guard errno == EEXIST else { throw Self.fault(path) }
        guard let found = try? P256.Signing.PrivateKey(pemRepresentation: Self.text(of: path)) else {
            throw Fault(description: "\(path) holds no P-256 private key in PEM")
        }
        key = found
    }

    /// Returns a proof of one request.
    ///
    /// `nonce` is the broker's last `DPoP-Nonce`, and `token` is the request's token.
    package func proof(
        of method: String, _ url: String, nonce: String? = nil, token: String? = nil, issuedAt: Int = time(nil)
    ) throws(Fault) -> String {
        let address = url.prefix { $0 != "?" && $0 != "#" }
        guard address.hasPrefix("http://") || address.hasPrefix("https://") else {
            throw Fault(description: "\(url) is no http or https URL")
        }
        let header: JSON = ["typ": "dpop+jwt", "alg": "ES256", "jwk": key.publicKey.jwk]
        var claims: JSON = [
            "jti": .string(Random.token()), "htm": .string(method), "htu": .string(String(address)),
            "iat": .int(issuedAt),
        ]
        if let nonce { claims["nonce"] = .string(nonce) }
        if let token { claims["ath"] = .string(Digest256.base64url(token)) }
        let text = JWTWriter.segment(header) + "." + JWTWriter.segment(claims)
        guard let signature = try? key.signature(for: Array(text.utf8)) else {
            throw Fault(description: "the key signs nothing")
        }
        return text + "." + Base64URL.encode(Array(signature.rawRepresentation))
    }

    private static func text(of path: String) throws(Fault) -> String {
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw fault(path) }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: longestFile)
        let count = bytes.withUnsafeMutableBytes { read(descriptor, $0.baseAddress, $0.count) }
        guard count >= 0 else { throw fault(path) }
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }

    private static func fault(_ path: String) -> Fault {
        Fault(description: "\(path): \(String(cString: strerror(errno)))")
    }
}
