/// Decides a refresh, step by step: a pure machine that takes what happened and returns what to do (guarantee 2).
///
/// The shell round it (`RefreshTokens`) makes the calls; the tests are tables of *input == action*.
struct RefreshStateMachine: Sendable {
    /// Why the refresh is wanted.
    enum Need: Sendable, Equatable {
        /// The access token is near or past its expiry.
        case expiring
        /// An upstream refused this token version, or the app asked: refresh unless the version has moved already.
        case forced(fromVersion: Int64)
    }

    /// Something that happened.
    enum Input: Sendable, Equatable {
        /// The row as read: its version, whether it lives, whether the access token still has time, whether it can refresh.
        case read(version: Int64, live: Bool, fresh: Bool, usable: Bool, refreshable: Bool)
        case claimed(fence: Int64, takenOver: Bool)
        case busy
        case moved
        case gone
        case storeFailed
        case patienceOver
        /// The provider answered with a token set.
        case refreshed
        /// The new id_token, if there was one, was looked at.
        case subjectChecked(same: Bool)
        case rejected(invalidGrant: Bool, takenOverSettled: Bool)
        case notSent
        case retryable
        case unusable
        case lost
        case committed
        case superseded
        case ended
        case condemned(Bool)
    }

    /// Something to do.
    enum Action: Sendable, Equatable {
        case claim(version: Int64)
        /// Call the provider; `confirming` is the one retry after a lost or unclear answer.
        case call(confirming: Bool)
        /// Store the new pair, before anything else is looked at.
        case commit
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

    /// What the caller gets.
    enum Outcome: Sendable, Equatable {
        /// The tokens as the row has them now.
        case useStored
        case sessionEnded
        case notRefreshable
        case unavailable
        case storeUnavailable
    }

    private enum State: Sendable, Equatable {
        case reading
        case claiming
        case calling(confirming: Bool, takenOver: Bool)
        case committing
        case checking
        case condemning
        case done
    }

    private let need: Need
    private var state = State.reading
    /// Whether the access token that is stored still lives: it is served although an early refresh failed.
    private var usable = false

    init(need: Need) { self.need = need }

    mutating func handle(_ input: Input) -> Action {
        switch (state, input) {
        case (.reading, .read(let version, let live, let fresh, let usable, let refreshable)):
            self.usable = usable
            guard live else { return finish(.sessionEnded) }
            switch need {
            case .expiring: if fresh { return finish(.useStored) }
            case .forced(let from): if version != from { return finish(.useStored) }
            }
            guard refreshable else { return finish(usable && need == .expiring ? .useStored : .notRefreshable) }
            state = .claiming
            return .claim(version: version)

        case (.claiming, .claimed(_, let takenOver)):
            state = .calling(confirming: false, takenOver: takenOver)
            return .call(confirming: false)
        case (.claiming, .busy):
            // Somebody else is at it. A token that still lives need not wait for them.
            if usable, need == .expiring { return finish(.useStored) }
            state = .reading
            return .wait
        case (.claiming, .moved):
            state = .reading
            return .readAgain
        case (.claiming, .gone): return finish(.sessionEnded)

        case (.calling, .refreshed):
            state = .committing
            return .commit
        case (.calling(let confirming, let takenOver), .rejected(let invalidGrant, let settled)):
            if invalidGrant {
                // A claim taken over from a lapsed one may have a late winner: give it time to commit.
                if takenOver, !settled {
                    // The claim is left to lapse, so that whoever takes it over next, anywhere, waits as well.
                    return finish(.unavailable)
                }
                state = .condemning
                return .condemn(confirming ? .refreshLost : .grantRevoked)
            }
            // An unclear refusal (400 without a body) is no proof of death by itself: one confirming retry.
            if !confirming {
                state = .calling(confirming: true, takenOver: takenOver)
                return .call(confirming: true)
            }
            return release(.unavailable)
        case (.calling(let confirming, let takenOver), .lost):
            // The provider may have rotated. One retry with the same token (and the same idempotency key) tells.
            guard !confirming else { return release(.unavailable) }
            state = .calling(confirming: true, takenOver: takenOver)
            return .call(confirming: true)
        case (.calling, .notSent), (.calling, .retryable), (.calling, .unusable): return release(.unavailable)

        case (.committing, .committed):
            state = .checking
            return .checkSubject
        case (.checking, .subjectChecked(true)): return finish(.useStored)
        case (.checking, .subjectChecked(false)):
            state = .done
            return .end(.subjectChanged)
        case (.committing, .superseded): return finish(.useStored)
        case (.committing, .ended):
            state = .done
            return .revoke

        case (.condemning, .condemned(true)): return finish(.sessionEnded)
        case (.condemning, .condemned(false)):
            // Version or fence moved: somebody won after all. Their pair is read.
            state = .reading
            return .readAgain

        case (_, .storeFailed): return finish(usable && need == .expiring ? .useStored : .storeUnavailable)
        case (_, .patienceOver): return finish(.unavailable)
        default: return finish(.unavailable)
        }
    }

    private mutating func finish(_ outcome: Outcome) -> Action {
        state = .done
        return .finish(outcome)
    }

    private mutating func release(_ outcome: Outcome) -> Action {
        state = .done
        return .release(then: usable && need == .expiring ? .useStored : outcome)
    }
}
