/// Decides each step of a refresh (guarantee 2).
///
/// The machine is pure. It takes an event and returns an action.
///
/// `RefreshFlight` makes the calls. `FlightGoal` defines the purpose of the refresh. The tests are tables of *input ==
/// action*.
struct RefreshStateMachine: Sendable {
    /// The reason why an access token has to be refreshed.
    enum Need: Sendable, Equatable {
        /// The access token is near or past its expiry.
        case expiring
        /// An upstream refused this token version, or the app asked for a newer one. The token is refreshed unless a newer
        /// version is already stored.
        case forced(fromVersion: Int64)
    }

    /// A session that lives, as the flight read it.
    struct Reading: Sendable, Equatable {
        /// The token version of the session's row.
        let version: Int64
        /// Whether the subject of the id_token has yet to be checked.
        let isUnchecked: Bool
        /// Whether the callers get the stored access token if it cannot be refreshed now.
        let isServable: Bool
        /// The goal's decision, for a session whose subject was checked.
        let next: NextStep
    }

    /// The goal's decision about a session that was read.
    enum NextStep: Sendable, Equatable {
        case finish(Outcome)
        /// Claim the session, and then make this call.
        case call(RefreshCall)
    }

    /// A granted claim.
    struct Claimed: Sendable, Equatable {
        /// Whether an earlier call with an unknown result may have used this refresh token.
        let isLossKnown: Bool
        /// Whether the time is over in which the former owner of a taken-over claim may still store its pair; true for other
        /// claims.
        let isSettled: Bool
    }

    /// The steps that a flight has taken, for the goal's next decision.
    struct Progress: Sendable, Equatable {
        /// Whether a new pair was stored, by this flight or another.
        ///
        /// Its access token is then used, however soon it expires.
        var isRefreshed = false
        /// Whether the provider refused the target with an error that may concern the grant.
        ///
        /// A plain refresh then shows whether the grant is dead.
        var isInQuestion = false
        /// Whether the call with the target is being repeated, after a plain refresh has shown that the grant is alive.
        var isRepeated = false
    }

    /// An event that `RefreshFlight` reports.
    enum Input: Sendable, Equatable {
        case read(Reading)
        /// The session is missing or has ended.
        case gone
        case claimed(Claimed)
        case busy
        case heldBack
        case moved
        case storeFailed
        case patienceOver
        /// The provider answered with a token set.
        case refreshed
        /// The provider answered an exchange with an access token.
        case exchanged
        /// The attempt to store the exchanged token has ended. The token was stored and the claim released, or another owner has
        /// the claim.
        case kept
        /// The new id_token, if there was one, was checked.
        case subjectChecked(SubjectCheck)
        case rejected(Refusal)
        case notSent
        case retryable
        case unusable
        case lost
        case committed
        case superseded
        case ended
        case condemned(Bool)
    }

    /// The result of checking a refreshed id_token.
    enum SubjectCheck: Sendable, Equatable { case same, another, unknown }

    /// The meaning of the provider's refusal.
    enum Refusal: Sendable, Equatable {
        /// A parsed `invalid_grant`, which proves that the refresh token is dead.
        case invalidGrant
        /// An answer with an empty body, or an error that may mean a dead grant. `enough` is true if the number and the
        /// period of such answers prove that the grant is dead.
        case counted(enough: Bool)
        case unclear
        /// A refusal that concerns only the target of the call.
        case target
    }

    /// An action that `RefreshFlight` carries out.
    enum Action: Sendable, Equatable {
        case claim(version: Int64)
        /// Call the provider; `confirming` marks the one retry after a lost or unclear answer.
        case call(confirming: Bool, RefreshCall = .plain)
        /// Store the new pair, however long it takes, before anything else is checked.
        case commit
        /// Store the exchanged token, and release the claim with it.
        case keep
        /// Check the new id_token, now that the pair is stored.
        case checkSubject
        /// End the session regardless of the claim, because its tokens belong to another user now.
        ///
        /// The session must still have the token version whose subject was checked.
        case end(EndReason, ifStillAt: Int64)
        /// End the session, with the claim's own fence and version.
        case condemn(EndReason)
        /// Release the claim, and then answer the callers.
        case release(then: Outcome)
        /// Read the row again after a pause.
        case wait
        case readAgain
        /// Revoke the pair that came too late for an ended session.
        case revoke
        case finish(Outcome)
    }

    /// The answer to the caller.
    enum Outcome: Sendable, Equatable {
        /// Answer with the tokens that the row has now.
        case useStored
        case sessionEnded
        case notRefreshable
        case unavailable
        case storeUnavailable
        /// The provider refuses to issue an access token for this API. If the stored token is still valid, the callers get
        /// it.
        case targetRefused
    }

    /// The states of a refresh, as docs/internals/a-refresh.md draws them.
    enum State: Sendable, Equatable {
        case reading
        case claiming
        case calling(confirming: Bool, RefreshCall)
        case committing(RefreshCall)
        case keeping
        case checking
        case condemning
        case done
    }

    private(set) var state = State.reading
    private(set) var progress = Progress()
    /// The call to make after the row is claimed.
    private var next = RefreshCall.plain
    private var isServable = false
    private var version: Int64 = 0
    /// The token version whose subject this flight has confirmed.
    private var checkedVersion: Int64?
    private var claimed = Claimed(isLossKnown: false, isSettled: true)
    /// Whether the answer to a call of this flight was lost.
    private var hasLost = false

    mutating func handle(_ input: Input) -> Action {
        switch (state, input) {
        case (.reading, .read(let reading)): return took(reading)
        case (.claiming, _): return claimEnded(input)
        case (.calling(let confirming, let call), _): return answered(call, confirming: confirming, input)
        case (.committing(let call), _): return written(call, input)
        case (.keeping, .kept): return readAgain()
        case (.checking, .subjectChecked(.same)):
            checkedVersion = version
            return readAgain()
        case (.checking, .subjectChecked(.another)):
            state = .done
            return .end(.subjectChanged, ifStillAt: version)
        // Tokens are served only after their subject is known.
        case (.checking, .subjectChecked(.unknown)): return finish(.unavailable)
        case (.condemning, .condemned(true)): return finish(.sessionEnded)
        // The version or the fence has changed, so another owner has the claim or has stored a pair. Read the row.
        case (.condemning, .condemned(false)):
            progress.isInQuestion = false
            return readAgain()
        default: return failed(input)
        }
    }

    private mutating func failed(_ input: Input) -> Action {
        switch input {
        case .gone: finish(.sessionEnded)
        case .storeFailed: finish(isServable ? .useStored : .storeUnavailable)
        default: finish(.unavailable)
        }
    }

    // MARK: Reading and claiming

    private mutating func took(_ reading: Reading) -> Action {
        version = reading.version
        // Tokens are served only after their subject was checked (SEC-59).
        if reading.isUnchecked, checkedVersion != version {
            isServable = false
            state = .checking
            return .checkSubject
        }
        isServable = reading.isServable
        switch reading.next {
        case .finish(let outcome): return finish(outcome)
        case .call(let call):
            if progress.isInQuestion { (progress.isInQuestion, progress.isRepeated) = (false, true) }
            next = call
            state = .claiming
            return .claim(version: version)
        }
    }

    private mutating func claimEnded(_ input: Input) -> Action {
        switch input {
        case .claimed(let claimed):
            self.claimed = claimed
            hasLost = false
            return call(next)
        case .busy:
            // Another owner is refreshing. Only callers with an expired token have to wait.
            if isServable { return finish(.useStored) }
            state = .reading
            return .wait
        case .heldBack: return finish(isServable ? .useStored : .unavailable)
        case .moved: return readAgain()
        default: return failed(input)
        }
    }

    // MARK: The provider's answer

    private mutating func call(_ call: RefreshCall, confirming: Bool = false) -> Action {
        state = .calling(confirming: confirming, call)
        return .call(confirming: confirming, call)
    }

    private mutating func answered(_ call: RefreshCall, confirming: Bool, _ input: Input) -> Action {
        switch input {
        case .refreshed:
            state = .committing(call)
            return .commit
        case .exchanged:
            state = .keeping
            return .keep
        case .rejected(let refusal):
            return call.provesGrant
                ? refused(refusal, confirming: confirming) : targetRefused(refusal, call, confirming: confirming)
        case .lost:
            guard call.spendsToken else { return release(.unavailable) }
            // The answer was lost, so the provider may have rotated the refresh token. One retry with the same token and
            // idempotency key shows whether it has.
            hasLost = true
            return confirming ? release(.unavailable) : self.call(call, confirming: true)
        case .notSent, .retryable, .unusable: return release(.unavailable)
        default: return failed(input)
        }
    }

    /// Decides the step after the refusal of a call with a target, which proves nothing about the grant.
    private mutating func targetRefused(_ refusal: Refusal, _ call: RefreshCall, confirming: Bool) -> Action {
        switch refusal {
        case .target: return release(.targetRefused)
        // The exchanged access token has just been refreshed, so the refusal concerns the target.
        case .invalidGrant where progress.isRepeated, .counted where progress.isRepeated:
            return release(.targetRefused)
        case .invalidGrant, .counted:
            progress.isInQuestion = true
            return self.call(.plain)
        case .unclear:
            guard !confirming, call.spendsToken else { return release(.unavailable) }
            return self.call(call, confirming: true)
        }
    }

    private mutating func refused(_ refusal: Refusal, confirming: Bool) -> Action {
        switch refusal {
        case .invalidGrant, .counted(enough: true):
            // If the claim was taken over, its former owner may still store a new pair. So the session must not end yet.
            guard claimed.isSettled else { return release(.unavailable) }
            state = .condemning
            return .condemn(claimed.isLossKnown || hasLost ? .refreshLost : .grantRevoked)
        case .counted(enough: false): return release(.unavailable)
        case .unclear:
            // It is still unproven that the grant is dead. Make one confirming retry.
            guard !confirming else { return release(.unavailable) }
            return call(.plain, confirming: true)
        // `RefusalReading` returns `.target` only for calls with a target, and this call has none.
        case .target: return release(.unavailable)
        }
    }

    // MARK: Writing

    private mutating func written(_ call: RefreshCall, _ input: Input) -> Action {
        switch input {
        case .committed:
            if call.provesGrant { progress.isRefreshed = true }
            version += 1
            state = .checking
            return .checkSubject
        // Another pair is stored. It may be this flight's own pair, if the store's response to an earlier write was lost. In both
        // cases the row has valid tokens, so read the row.
        case .superseded:
            if call.provesGrant { progress.isRefreshed = true }
            // The owner of the stored pair may have spent the refresh token that the provider refused together with the
            // target.
            progress.isInQuestion = false
            return readAgain()
        case .ended:
            state = .done
            return .revoke
        default: return failed(input)
        }
    }

    // MARK: Ending the flight

    private mutating func readAgain() -> Action {
        state = .reading
        return .readAgain
    }

    private mutating func finish(_ outcome: Outcome) -> Action {
        state = .done
        return .finish(outcome)
    }

    private mutating func release(_ outcome: Outcome) -> Action {
        state = .done
        // A refusal of the target is always reported, so that it is remembered. The callers may still get the stored token.
        return .release(then: isServable && outcome != .targetRefused ? .useStored : outcome)
    }
}
