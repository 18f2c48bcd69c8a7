package import Broker
import JWTKit

/// Signs short JWTs with one of the broker's keys: client assertions and Apple's client secret.
struct AssertionSigner: Sendable {
    private enum Key: Sendable {
        case rsa(Insecure.RSA.PrivateKey)
        case es256(ES256PrivateKey)
        case es384(ES384PrivateKey)
        case edDSA(EdDSA.PrivateKey)
        case hs256(HMACKey)
    }

    private let key: Key
    private let algorithm: SignatureAlgorithm?
    private let algorithmName: String?
    private let keyID: String?

    /// Reads the key; throws unless it fits the algorithm.
    init(_ settings: SigningKey) throws {
        let pem = settings.pem.reveal()
        switch settings.algorithm {
        case .rs256, .ps256: key = .rsa(try Insecure.RSA.PrivateKey(pem: pem))
        case .es256: key = .es256(try ES256PrivateKey(pem: pem))
        case .es384: key = .es384(try ES384PrivateKey(pem: pem))
        case .edDSA: key = .edDSA(try EdDSA.PrivateKey(pem: pem))
        case .rs384, .rs512, .ps384, .ps512, .es512:
            throw CatalogueFailure("private_key.algorithm is RS256, PS256, ES256, ES384, EdDSA or Ed25519")
        }
        algorithm = settings.algorithm
        algorithmName = settings.algorithmName
        keyID = settings.keyID
    }

    /// Creates a signer with a shared secret, for HS256.
    init(secret: Secret) {
        key = .hs256(HMACKey(from: secret.bytes()))
        algorithm = nil
        algorithmName = nil
        keyID = nil
    }

    /// The claims of an assertion; times are in seconds since 1970.
    struct Claims: JWTPayload {
        var iss: String
        var sub: String
        var aud: String
        var jti: String?
        var iat: Int64
        var exp: Int64

        func verify(using algorithm: some JWTAlgorithm) async throws {}
    }

    /// Returns the signed text; nil if the library refuses.
    ///
    /// With a `thumbprint`, the header names the certificate instead of the key. `listed` contains the names of the
    /// algorithms that the provider's metadata list; nil without such a list.
    func sign(_ claims: Claims, type: String?, thumbprint: String? = nil, listed: [String]? = nil) async -> Secret? {
        let collection = JWTKeyCollection()
        switch key {
        case .rsa(let key) where algorithm == .ps256: await collection.add(pss: key, digestAlgorithm: .sha256)
        case .rsa(let key): await collection.add(rsa: key, digestAlgorithm: .sha256)
        case .es256(let key): await collection.add(ecdsa: key)
        case .es384(let key): await collection.add(ecdsa: key)
        case .edDSA(let key): await collection.add(eddsa: key)
        case .hs256(let key): await collection.add(hmac: key, digestAlgorithm: .sha256)
        }
        var header = JWTHeader()
        header.alg = algorithm?.name(listed: listed, configured: algorithmName)
        if let type { header.fields["typ"] = .string(type) }
        if let thumbprint {
            header.fields["x5t#S256"] = .string(thumbprint)
        } else if let keyID {
            header.fields["kid"] = .string(keyID)
        }
        return (try? await collection.sign(claims, header: header)).map(Secret.init)
    }
}

/// The setting `assertion`, for servers that require another form of a client's assertion than RFC 7523bis.
package struct AssertionSettings: Sendable, Equatable {
    /// The setting `audience`.
    package enum Audience: Sendable, Equatable {
        /// `issuer`: the only audience that an attacker cannot misuse by confusing endpoints (SEC-19).
        case issuer
        /// `token_endpoint`: for servers from before the rule that the audience is the issuer.
        case tokenEndpoint
        /// `endpoint`: the address of the called endpoint, for servers that accept only this (Glewlwyd, idpyoidc).
        case endpoint
        /// An https URL from the configuration.
        case url(String)
    }

    /// The setting `key_header`.
    package enum KeyHeader: String, Sendable, CaseIterable {
        case keyID = "kid"
        /// The certificate's SHA-256 (Microsoft).
        case thumbprint = "x5t#S256"
    }

    /// The setting `audience`.
    package var audience: Audience
    /// `typ`: the value of this header member.
    package var type: String
    /// The setting `key_header`.
    package var keyHeader: KeyHeader
    /// The SHA-256 of the certificate in `certificate: {file}`, as base64url.
    package var thumbprint: String?

    package init(
        audience: Audience = .issuer, type: String = "client-authentication+jwt", keyHeader: KeyHeader = .keyID,
        thumbprint: String? = nil
    ) {
        self.audience = audience
        self.type = type
        self.keyHeader = keyHeader
        self.thumbprint = thumbprint
    }
}

/// A signing key of the broker for assertions (`private_key: {file, key_id, algorithm}`).
package struct SigningKey: Sendable {
    /// The PEM text of `private_key.file`.
    package var pem: Secret
    /// `private_key.key_id`: the `kid` of the key at the provider.
    package var keyID: String?
    /// `private_key.algorithm`: RS256, PS256, ES256, ES384 or EdDSA.
    package var algorithm: SignatureAlgorithm
    /// The spelling of the algorithm in the setting; nil if the default algorithm is used.
    package var algorithmName: String?

    package init(
        pem: Secret, keyID: String? = nil, algorithm: SignatureAlgorithm = .es256, algorithmName: String? = nil
    ) {
        self.pem = pem
        self.keyID = keyID
        self.algorithm = algorithm
        self.algorithmName = algorithmName
    }
}
