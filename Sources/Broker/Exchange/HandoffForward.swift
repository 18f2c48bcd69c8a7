/// Redeems a handoff (flow C): finds what the hosted callback kept, and finishes its login as any other.
struct HandoffForward: Sendable {
    let context: BrokerContext

    /// Returns the exchange, or `handoff_expired` for a handoff that is unknown, late, or does not open.
    func plan(_ handoff: Secret, _ input: ForwardCodeInput) async throws(BrokerProblem) -> ExchangePlan {
        guard Base64URL.isToken(handoff.reveal(), length: 43...43) else { throw BrokerProblem(.handoffExpired) }
        let key = context.vault.index(.handoff, [handoff.reveal()])
        do {
            guard let kept = try await context.store.handoff(key) else { throw BrokerProblem(.handoffExpired) }
            let secrets = try HandoffSecrets(record: try context.vault.open(kept.sealed, as: .outcome, row: key))
            guard let login = try await context.store.login(state: secrets.login) else {
                throw BrokerProblem(.handoffExpired)
            }
            // Late: only a forward of a login that this handoff already finished may still be answered.
            if kept.expiresAt <= context.clock.now(), login.status == .pending { throw BrokerProblem(.handoffExpired) }
            return try await BrokerLoginForward(context: context).plan(
                target: secrets.target, parameters: FormPairs(unchecked: secrets.parameters), login: login,
                input: input)
        } catch VaultFailure.doesNotOpen { throw BrokerProblem(.handoffExpired) } catch RecordFailure.malformed {
            throw BrokerProblem(.handoffExpired)
        } catch { throw BrokerProblem(opening: error) ?? BrokerProblem(storing: error) }
    }
}
