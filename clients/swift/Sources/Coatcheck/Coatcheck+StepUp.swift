import Foundation

/// A step-up, and the demands that it has to meet.
struct SteppingUp {
    /// The ways in which one ends that does not fail.
    enum End: Sendable {
        case done(Session)
        /// The app would not have a browser opened for a call.
        case declined
    }

    let id: UUID
    var demand: StepUp
    /// Whether the app itself asked for it.
    var isWanted: Bool
    /// Whether demands are still joined to it.
    var isGathering = true
    let call: SharedCall<End>
}

/// Step-ups: `docs/apps/step-up.md` has the rules.
extension Coatcheck {
    /// Has the user sign in again for the session, in one of these ways or so recently (in seconds), and returns the session,
    /// which goes on with its secret and its key.
    ///
    /// One step-up does for all who ask for it at the same time; who needs more than the one under way gets the next. Throws
    /// ``CoatcheckError/cancelled`` when the user closes the page, and a ``Problem`` with ``ProblemCode/stepUpFailed``
    /// (`required` and `got`) where the sign-in is not enough, or ``ProblemCode/subjectMismatch`` where somebody else signed
    /// in: then the session is as it was.
    public func stepUp(acrValues: [String]? = nil, maxAge: Int? = nil) async throws -> Session {
        while true {
            // One that calls began, and that the app then would not have, is no answer to the app itself.
            let demand = StepUp(acrValues: acrValues, maxAge: maxAge)
            if case .done(let session) = try await end(of: demand, isWanted: true) { return session }
        }
    }

    /// Starts a step-up and returns the page to open, for apps that open it themselves; then ``finish(_:device:)``.
    public func startStepUp(acrValues: [String]? = nil, maxAge: Int? = nil) async throws -> URL {
        try page(of: try await start(StepUp(acrValues: acrValues, maxAge: maxAge)))
    }

    /// Has the user step up for a call that was refused for want of it, once; throws where that is not to be.
    func stepUp(
        for problem: Problem, of call: Call, _ mending: inout Mending, sentAfter number: Int
    ) async throws {
        let required = StepUpRequired(problem)
        guard !mending.hasSteppedUp, !required.isParents, onStepUp != nil else { throw required }
        mending.hasSteppedUp = true
        // Another call's has ended while this one was under way.
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
        // Calls that were made together are refused one after the other.
        try await Task.sleep(for: gathering)
        guard let index = steppingUp.firstIndex(where: { $0.id == id }) else { throw CancellationError() }
        steppingUp[index].isGathering = false
        let one = steppingUp[index]
        if !one.isWanted {
            guard let onStepUp, await onStepUp(one.demand) else { return .declined }
        }
        guard browser != nil else { throw CoatcheckError.noBrowser }
        let login = try await start(one.demand)
        // As for other calls of a session the proof is its key's, and no key is made for it.
        guard case .signedIn(let session) = try await follow(login, device: nil, restarts: 0, evidence: .proof) else {
            throw CoatcheckError.noLogin
        }
        (stepUps, met) = (stepUps + 1, one.demand)
        return .done(session)
    }
}
