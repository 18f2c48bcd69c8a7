package import Broker
package import Crypto

/// A phone with a key.
///
/// A test can make any part of its proofs wrong.
package struct SigningPhone {
    package let key = P256.Signing.PrivateKey()

    package init() {}

    package static let address = "https://broker.example.test/v1/session"

    package var coordinates: (x: String, y: String) {
        let raw = Array(key.publicKey.rawRepresentation)
        return (Base64URL.encode(raw[..<32]), Base64URL.encode(raw[32...]))
    }

    /// The key's thumbprint (RFC 7638).
    package var thumbprint: String {
        let (x, y) = coordinates
        return Base64URL.encode(SHA256.hash(data: Array(#"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#.utf8)))
    }

    package func jwk(_ more: String = "") -> String {
        let (x, y) = coordinates
        return #"{"kty":"EC","crv":"P-256","x":"\#(x)","y":"\#(y)"\#(more)}"#
    }

    /// Makes a proof.
    ///
    /// A test can replace each part by a wrong one.
    package func proof(
        header: String? = nil, method: String = "GET", address: String = address, identifier: String = "id-1",
        nonce: String?, token: Secret? = nil, more: String = ""
    ) throws -> String {
        var claims = #""jti":"\#(identifier)","htm":"\#(method)","htu":"\#(address)","iat":1"#
        if let nonce { claims += #","nonce":"\#(nonce)""# }
        if let token { claims += #","ath":"\#(Base64URL.encode(SHA256.hash(data: token.bytes())))""# }
        return try signed(header ?? #"{"typ":"dpop+jwt","alg":"ES256","jwk":\#(jwk())}"#, "{\(claims)\(more)}")
    }

    package func signed(_ header: String, _ claims: String) throws -> String {
        let input = Base64URL.encode(Array(header.utf8)) + "." + Base64URL.encode(Array(claims.utf8))
        return input + "." + Base64URL.encode(try key.signature(for: Array(input.utf8)).rawRepresentation)
    }
}
