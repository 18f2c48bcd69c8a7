import Foundation

#if canImport(FoundationNetworking)
    import FoundationNetworking
#endif

/// A DPoP proof (RFC 9449): one request, signed by the device's key.
struct Proof: Sendable {
    let method: String
    let address: String
    /// The session token of the request, or nil for a sign-in.
    let session: String?
    /// The newest nonce from the broker, which judges the age of a proof only by this nonce.
    let nonce: String?
    /// The time by the device's clock, which may be wrong.
    let time: Date

    private struct Claims: Encodable {
        var jti: String
        var htm: String
        var htu: String
        var iat: Int
        var nonce: String?
        var ath: String?
    }

    /// Returns the proof as a signed token.
    func token(by key: any ProofKey, _ known: ProofPublicKey) async throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        let claims = Claims(
            jti: LoginToken.random(), htm: method, htu: address, iat: Int(time.timeIntervalSince1970), nonce: nonce,
            ath: session.map { SHA256.digest(of: Data($0.utf8)).base64URL })
        let header = #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(known.jwk)}"#
        let text = "\(Data(header.utf8).base64URL).\(try encoder.encode(claims).base64URL)"
        return "\(text).\(try await key.signature(over: Data(text.utf8)).base64URL)"
    }
}

extension URLRequest {
    /// The address without its query, as a proof contains it.
    var provedAddress: String { String((url?.absoluteString ?? "").prefix { $0 != "?" && $0 != "#" }) }
}

extension Data {
    /// The bytes as base64url without padding.
    var base64URL: String {
        base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
            .replacingOccurrences(of: "=", with: "")
    }
}
