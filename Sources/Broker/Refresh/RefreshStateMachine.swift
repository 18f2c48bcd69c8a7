/// Decides each step of a refresh, for the session's own access token or for another API's (guarantee 2).
///
/// The machine is pure. It takes an event and returns an action.
///
/// `RefreshFlight` makes the calls. The tests are tables of *input == action*.
struct RefreshStateMachine: Sendable {
    /// The reason why an access token has to be refreshed.
    enum Need: Sendable, Equatable {
        /// The access token is near or past its expiry.
        case expiring
        /// An upstream refused this token version, or the app asked. The token is refreshed unless its version has already
        /// moved.
        case forced(fromVersion: Int64)
    }

    /// The access token that the caller needs.
    enum Purpose: Sendable, Equatable {
        /// The session's own access token.
        case own
        /// A token for another API, fetched with the session's refresh token.
        case audience
        /// A token for another API, exchanged for the session's own token.
        case exchange
    }

    /// The kinds of call to the provider.
    enum Call: Sendable, Equatable {
        /// A refresh of the session's own access token. Only the answer to this call proves something about the grant.
        case plain
        /// A refresh with a target, for another API's token.
        case audience
        case exchange
    }

    /// The version of the access token that the caller needs.
    enum Standing: Sendable, Equatable {
        /// The token version of the session's row.
        case ofRow
        case version(Int64)
        /// The token has yet to be fetched.
        case missing
    }

    /// An event that the shell reports.
    enum Input: Sendable, Equatable {
        /// The session's row was read.
        ///
        /// - `live`: whether the session lives.
        /// - `fresh`: whether the access token has more time than the refresh margin.
        /// - `usable`: whether the access token has any time left.
        /// - `refreshable`: whether there is a refresh token, and a provider that takes it.
        /// - `unchecked`: whether the subject of the id_token has yet to be checked.
        /// - `withheld`: set if the access token was dropped, because the provider did not bind it to the session's key.
        /// - `needsOwn`: whether the session's own tokens have to be refreshed before a token for another API is requested.
        case read(
            version: Int64, live: Bool, fresh: Bool, usable: Bool, refreshable: Bool, unchecked: Bool = false,
            withheld: Withheld? = nil, standing: Standing = .ofRow, needsOwn: Bool = false)
        /// The claim was granted.
        ///
        /// - `lossKnown`: whether an earlier call with an unknown result may have used this refresh token.
        /// - `settled`: whether the time of a late winner is over.
        case claimed(lossKnown: Bool, settled: Bool)
        case busy
        case heldBack
        case moved
        case gone
        case storeFailed
        case patienceOver
        /// The provider answered with a token set.
        case refreshed
        /// The provider answered an exchange with an access token.
        case exchanged
        /// The exchanged token was stored and the claim released; or another owner has the claim.
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

    /// The age of an answer whose access token was not used because it was unbound.
    enum Withheld: Sendable, Equatable {
        /// The answer is recent, so the provider is left alone.
        case lately
        /// The provider may be called again.
        case before
    }

    /// The result of checking a refreshed id_token.
    enum SubjectCheck: Sendable, Equatable { case same, another, unknown }

    /// The meaning of the provider's refusal.
    enum Refusal: Sendable, Equatable {
        /// A parsed `invalid_grant`, which proves that the refresh token is dead.
        case invalidGrant
        /// An answer with an empty body, or an error that may mean a dead grant. `enough`: whether their number and period
        /// prove that it is dead.
        case counted(enough: Bool)
        case unclear
        /// A refusal of a call with a target, which concerns only the target.
        case target
    }

    /// An action for the shell.
    enum Action: Sendable, Equatable {
        case claim(version: Int64)
        /// Call the provider; `confirming` marks the one retry after a lost or unclear answer.
        case call(confirming: Bool, Call = .plain)
        /// Store the new pair, however long it takes, before anything else is checked.
        case commit
        /// Store the exchanged token, and release the claim with it.
        case keep
        /// Check the new id_token, now that the pair is stored.
        case checkSubject
        /// End the session regardless of the claim, because its tokens belong to another user now.
        case end(EndReason)
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
        /// The provider refuses this access token. If the stored one is still valid, the callers get it.
        case targetRefused
    }

    private enum State: Sendable, Equatable {
        case reading
        case claiming
        case calling(confirming: Bool, Call)
        case committing(Call)
        case keeping
        case checking
        case condemning
        case done
    }

    private let need: Need
    private let purpose: Purpose
    /// The call to make after the row is claimed.
    private var next = Call.plain
    /// Whether the provider refused the target with an error that may concern the grant.
    ///
    /// A plain refresh decides this.
    private var isInQuestion = false
    /// Whether the exchange is being repeated, after a plain refresh replaced the refused access token.
    private var isExchangedAgain = false
    private var state = State.reading
    /// Whether the stored access token is still valid, so that it is used although an early refresh failed.
    private var usable = false
    private var version: Int64 = 0
    /// The token version whose subject this flight has confirmed.
    private var checked: Int64?
    private var lossKnown = false
    private var settled = true
    /// Whether this flight or another has stored a new pair, which is then used, however short its life.
    private var isRefreshed = false

    init(need: Need, purpose: Purpose = .own) {
        self.need = need
        self.purpose = purpose
    }

    mutating func handle(_ input: Input) -> Action {
        switch (state, input) {
        case (
            .reading,
            .read(
                let version, let live, let fresh, let usable, let refreshable, let unchecked, let withheld,
                let standing,
                let needsOwn)
        ):
            guard live else { return finish(.sessionEnded) }
            self.version = version
            if unchecked, checked != version {
                self.usable = false
                state = .checking
                return .checkSubject
            }
            self.usable = usable
            // The session has no access token at any version. A new one is requested after a pause.
            if withheld == .lately || (withheld != nil && isRefreshed) {
                // A living token for another API is served although the session's own is withheld.
                let isServed = purpose != .own && usable && (need == .expiring || isServed(fresh: fresh, standing))
                return finish(isServed ? .useStored : .unavailable)
            }
            guard purpose == .own else {
                return wanted(fresh: fresh, refreshable: refreshable, standing, needsOwn: needsOwn)
            }
            if isRefreshed { return finish(.useStored) }
            return withheld == nil
                ? wanted(fresh: fresh, refreshable: refreshable, standing) : renewed(refreshable: refreshable)

        case (.claiming, .claimed(let lossKnown, let settled)):
            self.lossKnown = lossKnown
            self.settled = settled
            return call(next)
        case (.claiming, .busy):
            // Another owner is refreshing. Only callers with an expired token have to wait.
            if usable, need == .expiring { return finish(.useStored) }
            state = .reading
            return .wait
        case (.claiming, .heldBack): return finish(usable && need == .expiring ? .useStored : .unavailable)
        case (.claiming, .moved):
            state = .reading
            return .readAgain
        case (.claiming, .gone): return finish(.sessionEnded)

        case (.calling(_, let call), .refreshed):
            state = .committing(call)
            return .commit
        case (.calling, .exchanged):
            state = .keeping
            return .keep
        case (.calling(let confirming, .plain), .rejected(let refusal)):
            return refused(refusal, confirming: confirming)
        case (.calling(let confirming, let call), .rejected(let refusal)):
            return refused(refusal, call, confirming: confirming)
        // An exchange spends no token, so a confirming call is pointless.
        case (.calling(_, .exchange), .lost): return release(.unavailable)
        case (.calling(let confirming, let call), .lost):
            // The provider may have rotated the token. One retry with the same token and idempotency key shows whether it has.
            lossKnown = true
            guard !confirming else { return release(.unavailable) }
            return self.call(call, confirming: true)
        case (.calling, .notSent), (.calling, .retryable), (.calling, .unusable): return release(.unavailable)

        case (.committing(let call), .committed):
            state = .checking
            if call == .plain { isRefreshed = true }
            version += 1
            return .checkSubject
        // The winner may be this very flight, if the answer to its own write was lost. The row is right in each case, so read
        // it.
        case (.committing(let call), .superseded):
            if call == .plain { isRefreshed = true }
            // The winner may have spent the refresh token that was refused together with the target.
            isInQuestion = false
            state = .reading
            return .readAgain
        case (.committing, .ended):
            state = .done
            return .revoke
        case (.keeping, .kept):
            state = .reading
            return .readAgain

        case (.checking, .subjectChecked(.same)):
            checked = version
            state = .reading
            return .readAgain
        case (.checking, .subjectChecked(.another)):
            state = .done
            return .end(.subjectChanged)
        // Tokens are served only after their subject is known.
        case (.checking, .subjectChecked(.unknown)): return finish(.unavailable)

        case (.condemning, .condemned(true)): return finish(.sessionEnded)
        case (.condemning, .condemned(false)):
            // The version or the fence has moved, so another owner won. Read its pair.
            isInQuestion = false
            state = .reading
            return .readAgain

        case (_, .storeFailed): return finish(usable && need == .expiring ? .useStored : .storeUnavailable)
        case (_, .patienceOver): return finish(.unavailable)
        default: return finish(.unavailable)
        }
    }

    private mutating func wanted(fresh: Bool, refreshable: Bool, _ standing: Standing) -> Action {
        isServed(fresh: fresh, standing) ? finish(.useStored) : renewed(refreshable: refreshable)
    }

    /// Decides the next step for another API's token.
    ///
    /// If necessary, the session's own tokens are refreshed first, once.
    private mutating func wanted(
        fresh: Bool, refreshable: Bool, _ standing: Standing, needsOwn: Bool
    ) -> Action {
        if isInQuestion {
            guard purpose == .exchange, isRefreshed, !isExchangedAgain else { return finish(.targetRefused) }
            (isInQuestion, isExchangedAgain) = (false, true)
        }
        if isServed(fresh: fresh, standing) { return finish(.useStored) }
        next = needsOwn && !isRefreshed ? .plain : purpose == .exchange ? .exchange : .audience
        return renewed(refreshable: refreshable || next == .exchange)
    }

    private func isServed(fresh: Bool, _ standing: Standing) -> Bool {
        switch (need, standing) {
        case (.expiring, _): fresh
        case (.forced(let from), .ofRow): version != from
        case (.forced(let from), .version(let own)): own != from
        case (.forced, .missing): false
        }
    }

    private mutating func renewed(refreshable: Bool) -> Action {
        guard refreshable else { return finish(usable && need == .expiring ? .useStored : .notRefreshable) }
        state = .claiming
        return .claim(version: version)
    }

    private mutating func call(_ call: Call, confirming: Bool = false) -> Action {
        state = .calling(confirming: confirming, call)
        return .call(confirming: confirming, call)
    }

    /// Decides the step after the refusal of a call with a target, which proves nothing about the grant.
    private mutating func refused(_ refusal: Refusal, _ call: Call, confirming: Bool) -> Action {
        switch refusal {
        case .target: return release(.targetRefused)
        // The exchanged access token has just been refreshed, so the refusal concerns the target.
        case .invalidGrant where isExchangedAgain, .counted where isExchangedAgain: return release(.targetRefused)
        case .invalidGrant, .counted:
            isInQuestion = true
            return self.call(.plain)
        case .unclear:
            guard !confirming, call != .exchange else { return release(.unavailable) }
            return self.call(call, confirming: true)
        }
    }

    private mutating func refused(_ refusal: Refusal, confirming: Bool) -> Action {
        switch refusal {
        case .invalidGrant, .counted(enough: true):
            // A claim that was taken over may have a late winner, which gets time to commit.
            guard settled else { return release(.unavailable) }
            state = .condemning
            return .condemn(lossKnown ? .refreshLost : .grantRevoked)
        case .counted(enough: false): return release(.unavailable)
        case .unclear:
            // A dead grant is still unproven. Make one confirming retry.
            guard !confirming else { return release(.unavailable) }
            return call(.plain, confirming: true)
        // Only calls with a target get this refusal.
        case .target: return release(.unavailable)
        }
    }

    private mutating func finish(_ outcome: Outcome) -> Action {
        state = .done
        return .finish(outcome)
    }

    private mutating func release(_ outcome: Outcome) -> Action {
        state = .done
        // A refusal of the target is always reported, so that it is remembered, even if a living token is served.
        return .release(then: usable && need == .expiring && outcome != .targetRefused ? .useStored : outcome)
    }
}
