/// Decides a refresh, of the session's own access token or of one for another API, step by step: a pure machine that takes what
/// happened and returns what to do (guarantee 2).
///
/// The shell round it (`RefreshFlight`) makes the calls; the tests are tables of *input == action*.
struct RefreshStateMachine: Sendable {
    /// The reason for which the refresh is wanted.
    enum Need: Sendable, Equatable {
        /// The access token is near or past its expiry.
        case expiring
        /// An upstream refused this token version, or the app asked: refresh unless the version has moved already.
        case forced(fromVersion: Int64)
    }

    /// The access token that is wanted.
    enum Purpose: Sendable, Equatable {
        /// The session's own.
        case own
        /// One for another API, by the session's refresh token.
        case audience
        /// One for another API, for which the session's own is exchanged.
        case exchange
    }

    /// A call of the provider.
    enum Call: Sendable, Equatable {
        /// A refresh of the session's own access token: its answer alone speaks of the grant.
        case plain
        /// A refresh with a target.
        case audience
        case exchange
    }

    /// The version of the access token that is wanted.
    enum Standing: Sendable, Equatable {
        /// The row's own.
        case ofRow
        case version(Int64)
        /// There is none yet.
        case missing
    }

    /// Something that happened.
    enum Input: Sendable, Equatable {
        /// The row as read: its version, whether it lives, whether the access token still has time, whether it can refresh.
        /// `unchecked`: nobody has looked at the subject of its id_token yet. `withheld`: the provider did not bind the access
        /// token to the session's key, so there is none to use. `needsOwn`: the session's own tokens have to be refreshed before
        /// they can be asked with for another API.
        case read(
            version: Int64, live: Bool, fresh: Bool, usable: Bool, refreshable: Bool, unchecked: Bool = false,
            withheld: Withheld? = nil, standing: Standing = .ofRow, needsOwn: Bool = false)
        /// `lossKnown`: this refresh token may have been used already, by a call that nobody heard the end of.
        /// `settled`: no late winner can come any more.
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
        /// The exchanged token was stored and the claim given back, or another holds the claim.
        case kept
        /// The new id_token, if there was one, was looked at.
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

    /// The standing of a token set whose access token is withheld.
    enum Withheld: Sendable, Equatable {
        /// The provider answered so a short while ago, and is left alone.
        case lately
        /// It may be asked again.
        case before
    }

    /// The result of looking at a refreshed id_token.
    enum SubjectCheck: Sendable, Equatable { case same, another, unknown }

    /// The meaning of a refusal.
    enum Refusal: Sendable, Equatable {
        /// A parsed `invalid_grant`: the refresh token is dead.
        case invalidGrant
        /// No body, or an error that may mean a dead grant: `enough` when there were so many, for so long, that it is dead.
        case counted(enough: Bool)
        case unclear
        /// Of a call with a target: it speaks of the target and of nothing else.
        case target
    }

    /// Something to do.
    enum Action: Sendable, Equatable {
        case claim(version: Int64)
        /// Call the provider; `confirming` is the one retry after a lost or unclear answer.
        case call(confirming: Bool, Call = .plain)
        /// Store the new pair, however long it takes, before anything else is looked at.
        case commit
        /// Store the exchanged token, and give the claim back with it.
        case keep
        /// Look at the new id_token, now that the pair is safe.
        case checkSubject
        /// End the session, whoever holds the claim: it is another user's now.
        case end(EndReason)
        /// End the session, with our own fence and version.
        case condemn(EndReason)
        /// Give the claim back.
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
        /// The tokens as the row has them now.
        case useStored
        case sessionEnded
        case notRefreshable
        case unavailable
        case storeUnavailable
        /// The provider does not give this access token; the one that still lives is served, where there is one.
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
    /// The call that the claim is for.
    private var next = Call.plain
    /// Whether the provider refused the target with what may be of the grant: a plain refresh tells.
    private var isInQuestion = false
    /// Whether an exchange is made once more: a plain refresh has replaced the access token that it was refused with.
    private var isExchangedAgain = false
    private var state = State.reading
    /// Whether the access token that is stored still lives: it is served although an early refresh failed.
    private var usable = false
    private var version: Int64 = 0
    /// The version whose subject this flight has found to be the session's.
    private var checked: Int64?
    private var lossKnown = false
    private var settled = true
    /// Whether a new pair has been stored, by this flight or another: it is used, however short its life.
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
            // There is no access token, by whatever version; a new one is asked for after a pause.
            if withheld == .lately || (withheld != nil && isRefreshed) {
                // Another API's that lives is not the session's own.
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
            // Somebody else is at it. A token that still lives need not wait for them.
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
        // An exchange spends nothing.
        case (.calling(_, .exchange), .lost): return release(.unavailable)
        case (.calling(let confirming, let call), .lost):
            // The provider may have rotated. One retry with the same token (and the same idempotency key) tells.
            lossKnown = true
            guard !confirming else { return release(.unavailable) }
            return self.call(call, confirming: true)
        case (.calling, .notSent), (.calling, .retryable), (.calling, .unusable): return release(.unavailable)

        case (.committing(let call), .committed):
            state = .checking
            if call == .plain { isRefreshed = true }
            version += 1
            return .checkSubject
        // Perhaps by ourselves, when the answer to our own write was lost: the row is right, and is looked at.
        case (.committing(let call), .superseded):
            if call == .plain { isRefreshed = true }
            // Who won may have used up what the target was refused with.
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
        // Nobody gets these tokens before their subject is known.
        case (.checking, .subjectChecked(.unknown)): return finish(.unavailable)

        case (.condemning, .condemned(true)): return finish(.sessionEnded)
        case (.condemning, .condemned(false)):
            // Version or fence moved: somebody won after all. Their pair is read.
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

    /// The same for another API: the session's own tokens are refreshed first where they have to be, once.
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

    /// Judges the refusal of a call with a target: of the grant it proves nothing.
    private mutating func refused(_ refusal: Refusal, _ call: Call, confirming: Bool) -> Action {
        switch refusal {
        case .target: return release(.targetRefused)
        // The access token that was exchanged is as new as can be: it is the target that is refused.
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
            // A claim taken over from a lapsed one may have a late winner: give it time to commit.
            guard settled else { return release(.unavailable) }
            state = .condemning
            return .condemn(lossKnown ? .refreshLost : .grantRevoked)
        case .counted(enough: false): return release(.unavailable)
        case .unclear:
            // No proof of death by itself: one confirming retry.
            guard !confirming else { return release(.unavailable) }
            return call(.plain, confirming: true)
        // No plain call is refused so.
        case .target: return release(.unavailable)
        }
    }

    private mutating func finish(_ outcome: Outcome) -> Action {
        state = .done
        return .finish(outcome)
    }

    private mutating func release(_ outcome: Outcome) -> Action {
        state = .done
        // A refusal of the target is told as it is: it is to be remembered, whatever is served.
        return .release(then: usable && need == .expiring && outcome != .targetRefused ? .useStored : outcome)
    }
}
