/// Plans the redemption of a handoff (flow C) from the stored values of the hosted callback.
///
/// The login of the handoff is then finished like a login of flow A.
struct HandoffForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange; throws `handoff_expired` for a handoff that is unknown, expired, or fails to open.
    func plan(_ handoff: Secret, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan {
        guard Base64URL.isToken(handoff.reveal(), length: 43...43) else { throw BrokerProblem(.handoffExpired) }
        let key = context.vault.index(.handoff, [handoff.reveal()])
        do {
            guard let kept = try await context.store.handoff(key) else { throw BrokerProblem(.handoffExpired) }
            let secrets = try HandoffSecrets(record: try context.vault.open(kept.sealed, as: .outcome, row: key))
            guard let login = try await context.store.login(state: secrets.login) else {
                throw BrokerProblem(.handoffExpired)
            }
            // An expired handoff can no longer finish a pending login. A repeated forward of a login that the handoff has
            // finished is still answered.
            if kept.expiresAt <= context.clock.now(), login.status == .pending { throw BrokerProblem(.handoffExpired) }
            return try await BrokerLoginForward(context: context).plan(
                target: secrets.target, parameters: FormPairs(unchecked: secrets.parameters), login: login,
                input: input)
        } catch VaultFailure.doesNotOpen { throw BrokerProblem(.handoffExpired) } catch RecordFailure.malformed {
            throw BrokerProblem(.handoffExpired)
        } catch { throw BrokerProblem(opening: error) ?? BrokerProblem(storing: error) }
    }
}

/// The values of a hosted callback, kept sealed for the app to fetch (flow C).
///
/// A handoff can be used only one time, because its code has only one exchange.
struct HandoffSecrets: Sendable {
    /// The login's state digest.
    var login: Digest
    var target: String
    /// The parameters of the callback that the exchange reads.
    var parameters: [(name: String, value: String)]

    private static let format: UInt8 = 2

    var record: [UInt8] {
        var writer = RecordWriter(format: Self.format)
        writer.string(Base64URL.encode(login.bytes))
        writer.string(target)
        writer.pairs(parameters)
        return writer.bytes
    }

    init(login: Digest, target: String, parameters: [(name: String, value: String)]) {
        self.login = login
        self.target = target
        self.parameters = parameters
    }

    init(record bytes: [UInt8]) throws(RecordFailure) {
        var reader = try RecordReader(bytes, format: Self.format)
        guard let login = Base64URL.decode(try reader.string()).flatMap(Digest.init) else {
            throw .malformed
        }
        self.login = login
        target = try reader.string()
        parameters = try reader.pairs()
    }
}
