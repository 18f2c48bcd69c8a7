import Foundation

/// A step-up, and the demands that it has to meet.
struct SteppingUp {
    /// The outcomes of a step-up that succeeds or is declined.
    enum End: Sendable {
        case done(Session)
        /// The app declined to open a browser for a call.
        case declined
    }

    let id: UUID
    var demand: StepUp
    /// Whether the app itself requested the step-up, by a call of `stepUp`.
    var isWanted: Bool
    /// Whether further demands can still be added.
    var isGathering = true
    let call: SharedCall<End>
}

/// Step-ups.
///
/// `docs/apps/step-up.md` has the rules.
extension Coatcheck {
    /// Asks the user to sign in again, and returns the session, which keeps its secret and its key.
    ///
    /// The demand is one of the `acrValues`, a sign-in within `maxAge` seconds, or both together. Simultaneous requests
    /// share one step-up. If a request needs more than the running step-up, it gets the next one.
    ///
    /// Throws ``CoatcheckError/cancelled`` if the user closes the page. Throws a ``Problem`` with
    /// ``ProblemCode/stepUpFailed`` (`required` and `got`) if the sign-in is insufficient. Throws
    /// ``ProblemCode/subjectMismatch`` if another user signed in. After these errors, the session is unchanged.
    public func stepUp(acrValues: [String]? = nil, maxAge: Int? = nil) async throws -> Session {
        while true {
            // This request may have joined a step-up that a refused call began. If the app declines that step-up
            // (`onStepUp`), the app's own request remains, so try again.
            let demand = StepUp(acrValues: acrValues, maxAge: maxAge)
            if case .done(let session) = try await end(of: demand, isWanted: true) { return session }
        }
    }

    /// Starts a step-up and returns the page to open, for apps that open it themselves.
    ///
    /// Continue with ``finish(_:device:)``.
    public func startStepUp(acrValues: [String]? = nil, maxAge: Int? = nil) async throws -> URL {
        try page(of: try await start(StepUp(acrValues: acrValues, maxAge: maxAge)))
    }

    /// Runs one step-up for a call that the broker refused with `step_up_required`.
    ///
    /// Throws if a step-up is impossible or declined.
    func stepUp(
        for problem: Problem, of call: Call, _ mending: inout Mending, sentAfter number: Int
    ) async throws {
        let required = StepUpRequired(problem)
        guard !mending.hasSteppedUp, !required.isParents, onStepUp != nil else { throw required }
        mending.hasSteppedUp = true
        // If a step-up has met this demand since the call was sent, the call is sent again without another step-up.
        if number < stepUps, met?.covers(required.stepUp) == true { return }
        if case .declined = try await end(of: required.stepUp, isWanted: false) { throw required }
    }

    private func end(of demand: StepUp, isWanted: Bool) async throws -> SteppingUp.End {
        for (index, one) in steppingUp.enumerated() where one.call.isOpen {
            if one.isGathering, let joined = one.demand.joined(demand) {
                steppingUp[index].demand = joined
                steppingUp[index].isWanted = one.isWanted || isWanted
                return try await one.call.value()
            }
            if one.demand.covers(demand) { return try await one.call.value() }
        }
        let id = UUID()
        let call = SharedCall { try await self.pages.taken { try await self.stepUp(id) } }
        steppingUp.append(SteppingUp(id: id, demand: demand, isWanted: isWanted, call: call))
        defer { steppingUp.removeAll { !$0.call.isOpen } }
        return try await call.value()
    }

    private func stepUp(_ id: UUID) async throws -> SteppingUp.End {
        // Wait for further refusals. Simultaneous calls are refused one after the other, and one step-up can meet all
        // their demands.
        try await Task.sleep(for: gathering)
        guard let index = steppingUp.firstIndex(where: { $0.id == id }) else { throw CancellationError() }
        steppingUp[index].isGathering = false
        let one = steppingUp[index]
        if !one.isWanted {
            guard let onStepUp, await onStepUp(one.demand) else { return .declined }
        }
        guard browser != nil else { throw CoatcheckError.noBrowser }
        let login = try await start(one.demand)
        // The session's key proves the forward, as it proves the session's other calls. A step-up must not make a new
        // key.
        guard case .signedIn(let session) = try await follow(login, device: nil, restarts: 0, evidence: .proof) else {
            throw CoatcheckError.noLogin
        }
        (stepUps, met) = (stepUps + 1, one.demand)
        return .done(session)
    }
}
