import Broker
import Synchronization
import Testing

/// Makes rows with unique keys, and with times around a fixed moment.
enum Rows {
    static let now = WallTime(seconds: 1_795_000_000)
    private static let counter = Atomic<UInt64>(1)

    /// A unique digest; its bytes are spread like a hash's.
    static func digest() -> Digest {
        let number = counter.add(1, ordering: .relaxed).newValue
        return digest(number)
    }

    static func digest(_ number: UInt64) -> Digest {
        var bytes: [UInt8] = []
        var state = number
        for _ in 0..<4 {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            for shift in stride(from: UInt64(0), to: 64, by: 8) {
                bytes.append(UInt8(truncatingIfNeeded: state >> shift))
            }
        }
        guard let digest = Digest(bytes) else { preconditionFailure("32 bytes") }
        return digest
    }

    static func claim() -> ClaimID { ClaimID(random: digest().bytes) }

    static func handle() -> SessionHandle { SessionHandle(random: digest().bytes) }

    static func sealed(_ text: String = "sealed", key: String = "k1") -> Sealed {
        Sealed(keyID: key, envelope: Array(text.utf8))
    }

    static func login(tokenDigest: Digest = digest(), at time: WallTime = now, life: Duration = .seconds(600))
        -> LoginRow
    {
        let state = digest()
        return LoginRow(
            state: state, loginTokenDigest: tokenDigest, loginID: "lgn_\(state.bytes.prefix(4))", createdAt: time,
            expiresAt: time.advanced(by: life), sealed: sealed("login"))
    }

    static func exchange(
        key: Digest = digest(), proof: Digest? = digest(), at time: WallTime = now, gate: ExchangeGate = .none
    ) -> ExchangeRow {
        ExchangeRow(
            key: key, proof: proof, salt: digest().bytes, keyID: "k1", claim: claim(),
            claimFor: .seconds(25), createdAt: time, gate: gate)
    }

    static func session(
        tokenDigest: Digest = digest(), handle: SessionHandle = handle(), subject: Digest = digest(),
        subjectAndClient: Digest = digest(), sid: Digest? = nil, provider: Digest = digest(),
        client: Digest = digest(), at time: WallTime = now, idle: Duration = .seconds(3600),
        absolute: Duration = .seconds(7200), tokens: String = "tokens"
    ) -> SessionRow {
        SessionRow(
            tokenDigest: tokenDigest, handle: handle, subject: subject, subjectAndClient: subjectAndClient, sid: sid,
            provider: provider, client: client, createdAt: time, lastUsedAt: time,
            idleExpiresAt: time.advanced(by: idle), expiresAt: time.advanced(by: absolute),
            tokenExpiresAt: time.advanced(by: .seconds(600)), refreshable: true, facts: sealed("facts"),
            tokens: sealed(tokens))
    }

    static func child(
        of parent: SessionRow, place: Digest = digest(), at time: WallTime = now, idle: Duration = .seconds(3600),
        absolute: Duration = .seconds(7200)
    ) -> SessionRow {
        var row = session(
            subject: parent.subject, sid: parent.sid, provider: parent.provider, client: parent.client, at: time,
            idle: idle, absolute: absolute)
        row.tokenExpiresAt = nil
        row.refreshable = false
        row.tokens = nil
        row.lineage = Lineage(parent: parent.tokenDigest, place: place)
        return row
    }

    static func registration(key: Digest = digest(), at time: WallTime = now) -> RegistrationRow {
        RegistrationRow(
            key: key, loginTokenDigest: digest(), createdAt: time, expiresAt: time.advanced(by: .seconds(900)),
            sealed: sealed("registration"))
    }

    static func handoff(login: Digest = digest(), key: Digest = digest(), at time: WallTime = now) -> HandoffRow {
        HandoffRow(
            login: login, key: key, createdAt: time, expiresAt: time.advanced(by: .seconds(60)),
            keptUntil: time.advanced(by: .seconds(120)), sealed: sealed("handoff"))
    }

    static func targetToken(
        of session: Digest, key: Digest = digest(), version: Int64 = 1, at time: WallTime = now,
        _ text: String = "audience"
    ) -> TargetTokenRow {
        TargetTokenRow(key: key, session: session, version: version, storedAt: time, usedAt: time, tokens: sealed(text))
    }

    static func outbox(at time: WallTime = now) -> OutboxRow {
        OutboxRow(id: digest(), boundTo: digest(), tokens: sealed("outbox"), createdAt: time, nextAttemptAt: time)
    }

    static func seconds(_ count: Int64) -> WallTime { now.advanced(by: .seconds(count)) }
}

extension Rows {
    /// A presence key to store in a session.
    static func presence(of tokenDigest: Digest, _ text: String = "presence") -> PresenceCommit {
        PresenceCommit(
            tokenDigest: tokenDigest, sealed: sealed(text),
            audit: AuditRow(
                at: now, actor: "session", action: "session.presence_key_changed", target: "ses", outcome: "done"))
    }
}
