import Broker
import JWTKit
import Synchronization

/// One fetched JWKS: the keys that can be used, and the verifiers made of them so far.
final class KeySet: Sendable {
    private struct Use: Hashable {
        let index: Int
        let algorithm: SignatureAlgorithm
    }

    private let keys: [JSONWebKey]
    private let verifiers = Mutex<[Use: any JWTAlgorithm]>([:])

    /// The number of usable keys.
    var count: Int { keys.count }

    /// Reads a JWKS key by key, skipping what cannot be used; nil when it is no JWKS.
    init?(_ object: JSONObject) {
        guard let items = object["keys"]?.array, items.count <= 256 else { return nil }
        keys = items.compactMap { $0.object.flatMap(JSONWebKey.init) }
    }

    /// Returns whether exactly one key fits the token's header.
    func hasKey(for token: CompactToken) -> Bool { choose(token) != nil }

    /// With a kid the key of that kid, else (and without one) the only key that fits and bears no other name; nil when
    /// there is none or more than one.
    private func choose(_ token: CompactToken) -> Int? {
        let fitting = keys.indices.filter { keys[$0].fits(token.algorithm) }
        guard let name = token.keyID else { return fitting.count == 1 ? fitting.first : nil }
        let named = fitting.filter { keys[$0].keyID?.hasBytes(of: name) == true }
        if !named.isEmpty { return named.count == 1 ? named.first : nil }
        // A set may leave the names out although its tokens have them.
        let nameless = fitting.filter { keys[$0].keyID == nil }
        return nameless.count == 1 ? nameless.first : nil
    }

    /// Returns whether the token's signature verifies with the one key that its header names.
    func verifies(_ token: CompactToken) async -> Bool {
        guard let index = choose(token) else { return false }
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
