import Synchronization

/// The signing keys of all providers, made on demand.
final class KeyRings: Sendable {
    /// One key in the form of a JWKS.
    struct Entry: Sendable {
        let id: String
        let algorithm: String
        let key: SigningKey

        var jwk: JSON {
            key.publicJWK.merging(["kid": .string(id), "alg": .string(algorithm), "use": "sig"])
        }
    }

    private struct Ring: Sendable {
        var generation = 1
        var published: [Int] = [1]
        var entries: [String: Entry] = [:]
    }

    static let algorithms = ["ES256", "RS256", "PS256", "EdDSA"]

    private let rings = Mutex<[String: Ring]>([:])

    /// The current signing key.
    func current(_ provider: String, algorithm: String) async throws -> Entry {
        let generation = rings.withLock { $0[provider, default: Ring()].generation }
        return try await entry(provider, algorithm: algorithm, generation: generation)
    }

    /// Every published key, with the newest generation first.
    func published(_ provider: String) async throws -> [Entry] {
        let generations = rings.withLock { $0[provider, default: Ring()].published }
        var out: [Entry] = []
        for generation in generations {
            for algorithm in Self.algorithms {
                out.append(try await entry(provider, algorithm: algorithm, generation: generation))
            }
        }
        return out
    }

    /// Makes new keys; the old keys stay published only with `keepOld`.
    func rotate(_ provider: String, keepOld: Bool) {
        rings.withLock { rings in
            var ring = rings[provider] ?? Ring()
            ring.generation += 1
            ring.published = keepOld ? [ring.generation] + ring.published : [ring.generation]
            rings[provider] = ring
        }
    }

    private func entry(_ provider: String, algorithm: String, generation: Int) async throws -> Entry {
        let id = "\(provider)-\(algorithm.lowercased())-\(generation)"
        if let known = rings.withLock({ $0[provider]?.entries[id] }) { return known }
        let made = Entry(
            id: id, algorithm: algorithm,
            key: try await SigningKey.make(algorithm: algorithm, generation: generation))
        return rings.withLock { rings in
            if let known = rings[provider]?.entries[id] { return known }
            rings[provider, default: Ring()].entries[id] = made
            return made
        }
    }
}
