import Broker
import BrokerVault
import Foundation

/// The model for the sessions to store: an existing session, or an invented one of usual size.
struct SessionMould: Sendable {
    private let model: SessionRow
    private let facts: [UInt8]
    private let tokens: [UInt8]

    /// Copies a session of the store that `vault` opens, or makes a session of usual size if the store has none.
    init(_ store: any StoreAdministration, _ vault: OpenSSLVault) async throws {
        for row in try await store.rows(of: .sessions, after: nil, limit: 100).rows {
            guard case .session(let row, _) = row, row.endedAt == nil, let sealed = row.tokens else { continue }
            facts = try vault.open(row.facts, as: .session, row: row.tokenDigest)
            tokens = try vault.open(sealed, as: .tokens, row: row.tokenDigest)
            model = row
            return
        }
        // These sizes fit an identity, a subject and a scope, and a JWT as access token with a refresh token and an id_token.
        (facts, tokens) = (Array(repeating: 0x66, count: 260), Array(repeating: 0x74, count: 1500))
        let now = WallTime(seconds: Int64(Date().timeIntervalSince1970))
        let nothing = Sealed(keyID: vault.currentKeyID, envelope: [])
        model = SessionRow(
            tokenDigest: Self.digest(), handle: SessionHandle(random: Self.digest().bytes), subject: Self.digest(),
            subjectAndClient: Self.digest(), sid: nil, provider: Self.digest(), client: Self.digest(), createdAt: now,
            lastUsedAt: now, idleExpiresAt: now.advanced(by: .seconds(30 * 86_400)),
            expiresAt: now.advanced(by: .seconds(90 * 86_400)), tokenExpiresAt: now.advanced(by: .seconds(3600)),
            refreshable: true, facts: nothing, tokens: nothing)
    }

    /// Makes a session like the model, but for another user.
    ///
    /// Its values are sealed for its own row, so they open there.
    func row(_ vault: OpenSSLVault) throws -> StoredRow {
        var row = Self.another(model)
        row.facts = try vault.seal(facts, as: .session, row: row.tokenDigest)
        row.tokens = try vault.seal(tokens, as: .tokens, row: row.tokenDigest)
        return .session(row, RefreshMarks())
    }

    /// Returns a copy of the model for another user.
    ///
    /// Its sealed values are those of the model, so they open only in the model's row.
    static func another(_ model: SessionRow) -> SessionRow {
        var row = model
        row.tokenDigest = digest()
        row.handle = SessionHandle(random: digest().bytes)
        (row.subject, row.subjectAndClient) = (digest(), digest())
        if row.sid != nil { row.sid = digest() }
        (row.tokenVersion, row.fence) = (1, 0)
        return row
    }

    /// Returns a unique digest.
    static func digest() -> Digest {
        while true {
            var bytes: [UInt8] = []
            for _ in 0..<4 {
                let word = UInt64.random(in: .min ... .max)
                for shift in stride(from: UInt64(0), to: 64, by: 8) {
                    bytes.append(UInt8(truncatingIfNeeded: word >> shift))
                }
            }
            if let digest = Digest(bytes) { return digest }
        }
    }
}
