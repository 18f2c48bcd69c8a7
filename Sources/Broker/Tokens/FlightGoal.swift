/// The purpose of a refresh: the session's own access token, or a token for another API.
///
/// A goal defines how its token is read, requested and stored. It also defines the meaning of a refusal, and the pause after
/// a failure.
protocol FlightGoal: Sendable {
    /// The call that brings the token.
    var call: RefreshCall { get }
    /// The key of the token in the process's memory; nil for the session's own token.
    var key: Digest? { get }
    /// Whether the store returns the token only after it has noted that the subject was checked.
    var needsSubjectMark: Bool { get }

    // MARK: Beginning

    /// Returns the problem that forbids a new refresh for this token now; nil if a refresh may begin.
    func hindrance(of session: LiveSession, at moment: Duration, _ context: BrokerContext) -> BrokerProblem?

    /// Notes that a refresh for this token begins.
    func begins(for session: LiveSession, at moment: Duration, _ context: BrokerContext)

    // MARK: Reading

    /// Looks for the token in a session that lives.
    func find(in session: inout OpenSession, _ flight: FlightView) async throws(BrokerProblem) -> FoundToken

    /// Decides the next step for the token that was found.
    ///
    /// The function is pure.
    func next(
        _ found: FoundToken, _ need: RefreshStateMachine.Need, after progress: RefreshStateMachine.Progress
    ) -> RefreshStateMachine.NextStep

    /// Returns the token for the callers, or a problem if a step-up has deleted the stored token during the flight.
    func result(of session: OpenSession, _ context: BrokerContext) -> SharedFlight.Outcome

    // MARK: Requesting

    /// Makes the goal's call to the provider, once.
    func request(_ turn: RefreshTurn, _ flight: FlightView) async throws(RefreshCallFailure) -> AnswerInHand

    /// Decides the pause after a failed call.
    ///
    /// A goal may apply the pause to its own token only. The result is the pause for all refreshes of the session.
    func rest(after failure: ProviderFailure, for pause: Duration, _ flight: FlightView) -> Duration

    /// Remembers that the provider refuses the token, and returns the result for the callers.
    func refused(
        _ failure: ProviderFailure?, in session: OpenSession?, isServable: Bool, _ flight: FlightView
    ) -> SharedFlight.Outcome

    // MARK: Storing

    /// Notes that a token was stored, or was withheld.
    func wasWritten(_ answer: TokenSet?, isWithheld: Bool, in session: OpenSession, _ flight: FlightView)

    /// Returns the version of a token that was stored just now.
    func version(in session: OpenSession, _ grant: RefreshGrant) -> Int64
}

/// A goal whose call brings a new token pair, which replaces the session's pair.
protocol PairGoal: FlightGoal {
    /// Returns the values to store for a new pair.
    func values(of pair: PairInHand) throws(VaultFailure) -> PairValues
}

/// The values that a goal stores for a new token pair.
struct PairValues: Sendable {
    /// The session's tokens with the values of the pair.
    let tokens: StoredTokens
    /// Whether the pair's access token is left out because it is unbound or unusable.
    let isWithheld: Bool
    /// The stored tokens that the pair may replace; nil if it replaces any tokens of its token version.
    let formerTokens: Sealed?
    /// The row with the access token for another API, if the pair has one.
    let targetToken: TargetTokenRow?
}

/// A session that lives, as a flight read it, with its tokens opened.
struct OpenSession: Sendable {
    let row: SessionRow
    let stored: StoredTokens
    /// The provider, if it refreshes tokens.
    let provider: (any TokenRefreshing)?
    /// The stored access token for another API, if that is the goal.
    var kept: KeptTargetToken?

    var isRefreshable: Bool { provider != nil && stored.tokens.refreshToken != nil }
}

/// The stored access token that a flight found for its goal.
struct FoundToken: Sendable {
    /// The age of an answer with an unbound, and so unused, access token.
    enum Withheld: Sendable, Equatable {
        /// The answer is recent, so the provider is left alone for now.
        case lately
        /// The provider may be called again.
        case before
    }

    /// The token's version; nil if the token has yet to be fetched.
    let version: Int64?
    /// Whether the token has more time than the refresh margin.
    let isFresh: Bool
    /// Whether the token has any time left.
    let isUsable: Bool
    /// Whether there is a refresh token, and a provider that takes it.
    let isRefreshable: Bool
    /// Set if the access token was dropped, because the provider did not bind it to the session's key.
    let withheld: Withheld?
    /// The rest of the pause before the next provider call; nil if the provider may be called.
    let rest: Duration?
    /// Whether the session's own tokens have to be refreshed before a token for another API is requested.
    let needsOwn: Bool

    /// Returns whether the token is the one that the callers need.
    func serves(_ need: RefreshStateMachine.Need) -> Bool {
        switch need {
        case .expiring: isFresh
        case .forced(let from): version.map { $0 > from } ?? false
        }
    }
}

/// The part of a flight that its goal may see.
struct FlightView: Sendable {
    let context: BrokerContext
    let session: Digest
    /// The last granted claim of the flight, or nil.
    let grant: RefreshGrant?
    /// Whether this flight stored the pair of an answer whose access token is withheld.
    let isWithheld: Bool

    func failed(_ operation: StaticString, _ failure: StoreFailure) {
        ClaimShell(ClaimedSession(store: context.store, tokenDigest: session), context).failed(operation, failure)
    }

    func tellOfProof(_ session: OpenSession, _ detail: String) {
        context.events.emit(
            .proofRefused(
                provider: session.stored.provider, client: session.stored.client, session: session.row.handle,
                detail: detail))
    }
}

/// The inputs of one provider call under a claim.
struct RefreshTurn: Sendable {
    let session: OpenSession
    let grant: RefreshGrant
    /// The monotonic moment before which all calls of the claim have to end.
    let deadline: Duration
    /// Whether the call is the one retry after a lost or unclear answer.
    let isConfirming: Bool
    /// The record of the requests that were sent under the claim for the same kind of call.
    let sending: RefreshSending
}

/// The provider's successful answer, which has yet to be stored.
enum AnswerInHand: Sendable {
    /// A new token pair, the time when it arrived, and the goal that stores it.
    case tokens(TokenSet, arrivedAt: WallTime, for: any PairGoal)
    /// An exchanged access token, sealed for its row.
    case exchanged(TargetTokenRow)
}

/// The failure of a call, and its meaning for the refresh.
struct RefreshCallFailure: Error {
    let failure: ProviderFailure
    let meaning: RefreshStateMachine.Input
    /// Whether the provider may have spent the refresh token, although no new token arrived.
    let isAnswerLost: Bool

    init(_ failure: ProviderFailure, means meaning: RefreshStateMachine.Input, isAnswerLost: Bool = false) {
        self.failure = failure
        self.meaning = meaning
        self.isAnswerLost = isAnswerLost
    }
}
