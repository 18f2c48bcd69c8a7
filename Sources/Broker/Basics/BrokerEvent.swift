/// An event that operators may need to know.
///
/// The executable turns each event into a log line and metrics. Events never carry a secret. A handle is a public name that
/// opens nothing. With the handle from a log line, an operator finds the session at the management listener.
package enum BrokerEvent: Sendable {
    case loginStarted(provider: ProviderName, client: ClientName)
    case loginRefused(provider: ProviderName?, client: ClientName?, code: ProblemCode, detail: String)
    /// A callback has an `iss`, but the provider's own issuer is unknown, so the `iss` was left unchecked.
    case issuerUnchecked(provider: ProviderName)
    case loginBurned(provider: ProviderName, client: ClientName)
    case loginSucceeded(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// The user of a session signed in again for a step-up.
    case steppedUp(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// The id_token of a login has a `sid` that cannot be used for lookups.
    ///
    /// If the provider later announces a log-out by that `sid`, the log-out misses the session.
    case sidUnusable(provider: ProviderName, client: ClientName, session: SessionHandle)
    case exchangeReplayed(provider: ProviderName)
    /// The provider refuses an imported token, and the first granted import of the client is still to come.
    case importUnproven(provider: ProviderName, client: ClientName)
    case exchangeFailed(provider: ProviderName, client: ClientName, failure: ProviderFailure)
    /// An app posted tokens that it already held.
    case imported(provider: ProviderName, client: ClientName, way: ImportWay, result: ImportResult)
    /// The old system answered a question about a legacy token, or failed to; `detail` is the reason, if there is one.
    case oldSystemAnswered(
        provider: ProviderName, client: ClientName, result: OldSystemResult, detail: String?)
    case registrationStarted(provider: ProviderName, client: ClientName)
    case registrationFinished(provider: ProviderName, client: ClientName, result: String)
    /// Sessions ended; `session` is the handle if there is one session and its handle is known.
    case sessionEnded(reason: EndReason, count: Int, session: SessionHandle?)
    case refreshed(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// A refresh failed.
    ///
    /// `counted` is the error of a refusal that may mean a dead grant; it is empty if the answer had no body.
    case refreshFailed(
        provider: ProviderName, client: ClientName, session: SessionHandle, reason: String, counted: String?)
    /// The refresh ended the session, because the provider's refusal was permanent, or the tokens are now another user's.
    case refreshEndedSession(provider: ProviderName, client: ClientName, session: SessionHandle, reason: EndReason)
    /// The provider's answer to a request for another API's token has no usable access token. The refresh token in the answer is
    /// kept.
    case tokenOfNoUse(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// The provider answered a refresh without binding the access token to the session's key, so the broker does not use the
    /// token.
    case tokenNotBound(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// The provider refuses the broker's proofs in a refresh.
    case proofRefused(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// A refresh brought an id_token that failed to verify; its claims were dropped.
    case refreshedTokenUnverified(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// The provider refuses an access token for another API; the session is unaffected.
    case targetRefused(provider: ProviderName, client: ClientName, session: SessionHandle, detail: String)
    /// An upstream keeps refusing a session's newer tokens, so forced refreshes for the upstream pause for `pause`.
    case upstreamKeepsRefusing(
        provider: ProviderName, client: ClientName, session: SessionHandle, upstream: String, pause: Duration)
    /// A caller waits for a refresh that another caller began.
    case refreshWaited(provider: ProviderName, client: ClientName)
    /// A caller that wanted a refresh got the result of another caller's refresh.
    case refreshShared(provider: ProviderName, client: ClientName)
    /// An app whose client has the permission received the provider's access token.
    case accessTokenHandedOut(provider: ProviderName, client: ClientName, session: SessionHandle)
    /// The evidence of a sign-in or of a bound session was checked; `result` is `accepted`, a code or a reason.
    case proofJudged(provider: ProviderName, client: ClientName, result: String)
    /// A call's proof of presence was checked; `result` is `accepted`, a code or a reason.
    case presenceJudged(provider: ProviderName, client: ClientName, result: String)
    /// A session now has a presence key (`session.presence_key_changed`).
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
