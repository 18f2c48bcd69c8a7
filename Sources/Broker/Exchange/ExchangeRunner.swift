/// Runs exchanges: one code, one provider call, one session, over any number of replicas (guarantee 1).
///
/// The claim decides who calls; the call is detached from the request, so that a phone that hangs up loses nothing; all
/// others read the row until it is settled. Nothing is kept in memory, so it is the same on one replica and on ten.
struct ExchangeRunner: Sendable {
    let context: BrokerContext

    /// Two calls more after a 429 or 5xx (the failure table of DESIGN section 4.1).
    static let maximumAttempts = 3

    /// Claims the exchange and calls, or waits for who did, or repeats its outcome to the same starter.
    func run(_ plan: ExchangePlan) async throws(BrokerProblem) -> SignInOutcome {
        let charging = ExchangeCharge(context: context)
        try await charging.take(plan.key, plan.gate, plan.charge)
        let patience = context.clock.monotonic() + context.settings.waiterPatience
        var pause = Duration.milliseconds(25)
        while true {
            let row = try newRow(plan)
            let claim: ExchangeClaimResult
            do throws(StoreFailure) {
                claim = try await context.store.claimExchange(row, maximumAttempts: Self.maximumAttempts)
            } catch { throw BrokerProblem(error) }
            switch claim {
            case .claimed(let claimed):
                charging.count(plan.gate, plan.charge)
                let caller = ExchangeCaller(context: context, plan: plan, row: claimed)
                guard let result = await Detached.run("exchange", on: context.spawner, { await caller.call() }) else {
                    throw BrokerProblem(.providerUnavailable, privateDetail: "the app hung up", retryAfter: .seconds(1))
                }
                return try result.get()
            case .gateClosed: throw try await closedGate(plan)
            case .existing(let existing):
                guard isSameStarter(plan, existing) else { throw BrokerProblem(.codeAlreadyUsed) }
                if existing.outcome != .calling {
                    return try await ExchangeReplay(context: context).answer(plan, existing)
                }
            }
            guard context.clock.monotonic() < patience else {
                throw BrokerProblem(
                    .providerUnavailable, privateDetail: "another forward of this code is still calling",
                    retryAfter: .seconds(2))
            }
            // Cancelled: nobody waits for the answer any more, and the owner's call goes on.
            do { try await context.clock.sleep(pause) } catch {
                throw BrokerProblem(.providerUnavailable, retryAfter: .seconds(1))
            }
            pause = min(pause * 2, .milliseconds(400))
        }
    }

    private func newRow(_ plan: ExchangePlan) throws(BrokerProblem) -> ExchangeRow {
        let now = context.clock.now()
        do throws(VaultFailure) {
            return ExchangeRow(
                key: plan.key, proof: plan.proof.map(context.vault.digest), salt: try context.vault.random(32),
                keyID: context.vault.currentKeyID, claimUntil: now.advanced(by: context.settings.claimLifetime),
                createdAt: now, gate: plan.gate)
        } catch { throw BrokerProblem(error) }
    }

    private func isSameStarter(_ plan: ExchangePlan, _ row: ExchangeRow) -> Bool {
        guard let stored = row.proof, let brought = plan.proof else { return false }
        return stored == context.vault.digest(brought)
    }

    /// Says why a login or registration could not be taken: expired, or used by another code.
    private func closedGate(_ plan: ExchangePlan) async throws(BrokerProblem) -> BrokerProblem {
        do throws(StoreFailure) {
            switch plan.gate {
            case .none: return BrokerProblem(.codeAlreadyUsed)
            case .login(let state):
                let login = try await context.store.login(state: state)
                let expired = login.map { $0.status == .pending && $0.expiresAt <= context.clock.now() } ?? false
                return BrokerProblem(expired ? .loginExpired : .stateMismatch)
            case .registration: return BrokerProblem(.stateKeyExpired)
            }
        } catch { throw BrokerProblem(error) }
    }
}
