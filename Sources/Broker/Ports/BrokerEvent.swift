/// Something worth telling operators.
///
/// The executable turns it into a log line and metrics; none carries a secret. Handles are public names: they lead from a
/// line to the management listener, and open nothing.
package enum BrokerEvent: Sendable {
    case loginStarted(provider: ProviderName, client: ClientName)
    case loginRefused(provider: ProviderName?, client: ClientName?, code: ProblemCode, detail: String)
    /// A callback named an issuer, and nothing is known to compare it with.
    case issuerUnchecked(provider: ProviderName)
    case loginBurned(provider: ProviderName, client: ClientName)
    case loginSucceeded(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// A session's user signed in again for it.
    case steppedUp(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// The id_token of a login has a `sid` that cannot be kept: a log-out that the provider announces by it misses the
    /// session.
    case sidUnusable(provider: ProviderName, client: ClientName, session: SessionHandle)
    case exchangeReplayed(provider: ProviderName)
    case exchangeFailed(provider: ProviderName, client: ClientName, failure: ProviderFailure)
    case registrationStarted(provider: ProviderName, client: ClientName)
    case registrationFinished(provider: ProviderName, client: ClientName, result: String)
    /// Sessions ended; the handle where it is one whose handle is known.
    case sessionEnded(reason: EndReason, count: Int, session: SessionHandle?)
    case refreshed(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// `counted`: the error of a refusal that may mean a dead grant, empty where the answer had no body.
    case refreshFailed(
        provider: ProviderName, client: ClientName, session: SessionHandle, reason: String, counted: String?)
    /// The refresh ended the session: the provider said no for good, or it is another user's now.
    case refreshEndedSession(provider: ProviderName, client: ClientName, session: SessionHandle, reason: EndReason)
    /// The answer to a call for another API has no access token that can be used; its refresh token is kept.
    case tokenOfNoUse(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// The provider answered a refresh without binding the access token to the session's key; it is not used.
    case tokenNotBound(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// The provider refuses our proofs in a refresh.
    case proofRefused(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// A refresh brought an id_token that does not verify; its claims were dropped.
    case refreshedTokenUnverified(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// The provider refuses an access token for another API; the session is none the worse for it.
    case targetRefused(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// An upstream keeps refusing a session's newer tokens; none is forced for it again for so long.
    case upstreamKeepsRefusing(
        provider: ProviderName, client: ClientName, session: SessionHandle, upstream: String, pause: Duration)
    /// A caller waits for another's refresh.
    case refreshWaited(provider: ProviderName, client: ClientName)
    /// A caller who wanted a refresh was served by another's.
    case refreshShared(provider: ProviderName, client: ClientName)
    /// A client that may have it got the provider's access token.
    case accessTokenHandedOut(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// The evidence of a sign-in or of a bound session was judged: `accepted`, a code or a reason.
    case proofJudged(provider: ProviderName, client: ClientName, result: String)
    /// A call's proof of presence was judged: `accepted`, a code or a reason.
    case presenceJudged(provider: ProviderName, client: ClientName, result: String)
    /// A session has a presence key now (`session.presence_key_changed`).
    case presenceKeyChanged(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// A session has a new child.
    case childMade(provider: ProviderName, client: ClientName, kind: ChildKind, session: SessionHandle)
    case rowDidNotOpen(kind: SealedKind, unknownKey: Bool)
    case revocation(provider: ProviderName, result: String)
    case providerSessionEnd(provider: ProviderName, result: String)
    case logoutToken(provider: ProviderName, result: String)
    case adminAction(actor: String, action: String)
    case storeFailed(operation: StaticString, detail: String)
}

/// The receiver of events.
package struct EventSink: Sendable {
    /// Takes one event; must not block.
    package let emit: @Sendable (BrokerEvent) -> Void

    /// Creates a sink from its closure.
    package init(emit: @escaping @Sendable (BrokerEvent) -> Void) { self.emit = emit }
}
