import Broker
import JWTKit
import Synchronization

/// One fetched JWKS, with its usable keys and the verifiers made from them so far.
final class KeySet: Sendable {
    private struct Use: Hashable {
        let index: Int
        let algorithm: SignatureAlgorithm
    }

    private let keys: [JSONWebKey]
    private let verifiers = Mutex<[Use: any JWTAlgorithm]>([:])

    /// The number of usable keys.
    var count: Int { keys.count }

    /// The largest number of keys with an equal `kid` that are tried for a token.
    static let maximumTries = 4

    /// Reads a JWKS key by key and skips unusable keys; nil if the set is malformed or has too many keys.
    ///
    /// Entries with identical members count as one key.
    init?(_ object: JSONObject) {
        guard let items = object["keys"]?.array, items.count <= 256 else { return nil }
        var seen: Set<[UInt8]> = []
        keys = items.compactMap { item in
            guard let object = item.object, seen.insert(Self.identity(of: object)).inserted else { return nil }
            return JSONWebKey(object)
        }
    }

    /// Returns bytes that are equal for entries with identical members: all members other than null, ordered by their names.
    private static func identity(of object: JSONObject) -> [UInt8] {
        let members = object.members.filter { !$0.value.isNull }.sorted { $0.name < $1.name }
        var writer = JSONWriter()
        writer.value(.object(JSONObject(members)))
        return writer.bytes
    }

    /// Returns whether there is a key to try for the token's header.
    func hasKey(for token: CompactToken) -> Bool { !candidates(token).isEmpty }

    /// Returns the keys to try.
    ///
    /// A key is suitable if it fits the token's algorithm.
    /// - A token with a `kid`: the suitable keys with that `kid`, at most four.
    /// - A token with a `kid` that is missing in the set: the suitable key without a `kid`, if exactly one exists.
    /// - A token without a `kid`: the suitable key, if exactly one exists.
    func candidates(_ token: CompactToken) -> [Int] {
        let fitting = keys.indices.filter { keys[$0].fits(token.algorithm) }
        guard let name = token.keyID else { return fitting.count == 1 ? fitting : [] }
        let named = fitting.filter { keys[$0].keyID?.hasBytes(of: name) == true }
        if !named.isEmpty { return Array(named.prefix(Self.maximumTries)) }
        // Some providers omit `kid` in the key set although their tokens have a `kid`. Then a single key without `kid` is
        // tried.
        let nameless = fitting.filter { keys[$0].keyID == nil }
        return nameless.count == 1 ? nameless : []
    }

    /// Returns whether one of the token's candidate keys verifies the signature.
    ///
    /// If there are several candidates, `mayTry` is called before each try, and the tries end when it returns false.
    func verifies(_ token: CompactToken, mayTry: @Sendable () -> Bool = { true }) async -> Bool {
        let candidates = candidates(token)
        for index in candidates {
            guard candidates.count == 1 || mayTry() else { return false }
            if await verifies(token, by: index) { return true }
        }
        return false
    }

    private func verifies(_ token: CompactToken, by index: Int) async -> Bool {
        let use = Use(index: index, algorithm: token.algorithm)
        let known = verifiers.withLock { $0[use] }
        guard let verifier = if let known { known } else { await keys[index].verifier(for: token.algorithm) } else {
            return false
        }
        verifiers.withLock { $0[use] = verifier }
        if let bound = keys[index].issuer, let issuer = token.claims["iss"]?.string {
            let tenant = token.claims["tid"]?.string ?? ""
            guard bound.replacing("{tenantid}", with: tenant) == issuer else { return false }
        }
        return (try? verifier.verify(token.signature, signs: token.signingInput)) ?? false
    }
}

extension JSONWebKey {
    /// Returns JWTKit's verifier for exactly this key and algorithm, in a collection of its own; nil if the key is broken.
    func verifier(for algorithm: SignatureAlgorithm) async -> (any JWTAlgorithm)? {
        let name = JWK.Algorithm(rawValue: algorithm.rawValue)
        let identifier = JWKIdentifier(string: "key")
        let jwk: JWK
        switch keyType {
        case "RSA": jwk = .rsa(name, identifier: identifier, modulus: first, exponent: second)
        case "EC":
            let curve = curve.flatMap(ECDSACurve.init(rawValue:))
            jwk = .ecdsa(name, identifier: identifier, x: first, y: second, curve: curve)
        default: jwk = .octetKeyPair(name, identifier: identifier, x: first, y: nil, curve: .ed25519)
        }
        guard let collection = try? await JWTKeyCollection().add(jwk: jwk),
            let made = try? await collection.getKey(for: identifier), made.name == algorithm.rawValue
        else { return nil }
        return made
    }
}
