/// A fault that the broker once had.
///
/// The case selects weather in which the simulation finds this fault.
package enum Scenario: String, CaseIterable, Sendable {
    /// A claim lapses while its owner is still calling the provider, because the calls of the claim have no common deadline.
    case callsOutliveTheirClaim
    /// A process takes over a claim and then releases it.
    ///
    /// The take-over is forgotten, so the next refusal ends the session.
    case takeOverIsForgotten
    /// The broker throws a new token pair away if the store is away for longer than twenty seconds.
    case storeAwayAmidRefresh
    /// An exchange takes longer than its claim.
    ///
    /// If the starter forwards the callback again, the broker marks the code as spent.
    case exchangeOutlivesItsClaim
    /// The store is away.
    ///
    /// A process gives up the exchange of a redeemed code, although most of the claim's time is left.
    case storeAwayAmidExchange
    /// A process notices only after the commit that a refresh named another user.
    ///
    /// A crash at this moment loses the knowledge.
    case subjectForgottenByCrash
    /// For ten minutes, every answer of the provider's token endpoint is a 401 with an empty body.
    case emptyRefusals
    /// The answer with a new refresh token is lost.
    ///
    /// The session then ends with the reason `grant_revoked` instead of `refresh_lost`.
    case lostRotationMisnamed
    /// Somebody sets the wall clock to another time during a refresh.
    case wallClockSteps
    /// For some seconds, the wall clock is wrong.
    ///
    /// It is either an hour behind, or three months ahead, so that every session seems to have lapsed.
    case wallClockLeaps
    /// The broker is interrupted while it carries out a logout token, and then treats the repeated logout token as a replay.
    case interruptedLogoutToken
    /// All processes lose the store for longer than a claim while they wait for the provider's answers.
    ///
    /// Then one process after the other finds the store again.
    case storeFoundAgainApart
    /// One process is cut off from the store for longer than its claim.
    ///
    /// When it reaches the store again, it has a new token pair.
    case holderIsCutOff
    /// A process pauses during a refresh, and receives a refusal long after another process has taken over the claim.
    case frozenHolder
    /// For longer than a claim lasts, token pairs and sessions cannot be written, while all other writes succeed.
    case writesAreHeld
    /// Users log out while the replicas do not receive each other's notices, and while earlier calls are still in progress.
    case deafReplicas
    /// Strangers forward the callbacks of other users.
    case strangersForward
    /// One person signs in so often that the limit of sessions is exceeded.
    case tooManySessions
    /// If the broker revokes one grant, the provider ends all grants of the person.
    case revocationTakesAll
    /// Sessions that are not used lapse.
    case sessionsRunOut
    /// The clocks of processes and of the store are set to a wrong time and back, while sessions with short idle times are
    /// used.
    case clocksStepInUse
    /// Many callers ask for a newer access token at the same time, at several processes.
    case manyWantNewer
    /// Apps have widgets with child sessions.
    ///
    /// A session and its child use the same refresh, and the child ends with its parent.
    case familiesEndTogether
    /// The provider requires nonces, changes them with every answer and sometimes makes them all invalid.
    ///
    /// Processes die after a nonce was refused, before they repeat the call.
    case noncesChange
    /// The provider binds tokens to a key, but some refreshes return an access token that is bound to no key.
    case bearerAnswers
    /// The provider binds its tokens to the broker's client certificate.
    ///
    /// The certificate is renewed, and the processes and the provider receive the new one at different times.
    case certificatesChange
    /// Users step up their sessions during refreshes, and processes die between the provider's answer and the commit.
    case stepUpsMeetRefreshes
    /// The answer to a step-up repeats the refresh token of the session's grant.
    ///
    /// At the same time, refreshes rotate this token.
    case stepUpsRepeatTheToken
    /// The store is away for longer than the claim of an exchange, while processes have the provider's answers in memory.
    case outagesOutliveExchanges
    /// The store is away, so step-ups wait in one process.
    ///
    /// Their users step up again at another process, which finds the store earlier.
    case stepUpsCrossOutages
    /// A session gets the access tokens of several APIs with one refresh token.
    ///
    /// The provider refuses some of these APIs, and sessions step up and end at the same time.
    case audiencesShareOneGrant

    /// The sign-in of a step-up is too weak or another user's, or the step-up is finished with another session's token.
    case unfitSignIns
    /// The provider returns less scope in its refreshes, while sessions step up.
    case scopesShrink
    /// The key ring gets newer keys, and one process after the other receives them.
    case keysRotate
    /// Apps hand sessions over to web pages.
    ///
    /// Tickets are copied, and used twice, too late or with a wrong secret. The session of a page ends with its parent session.
    case pagesAreHandedOver
    /// Some calls need the user's presence.
    ///
    /// Their proofs are repeated, copied, too old or made by another key, while processes die and the store is away.
    case presenceIsShown
    /// Apps import the refresh tokens that they have, while answers are lost, processes die and the store is away.
    case tokensAreImported
    /// Apps move sessions from an old system, whose answers are late, lost or useless.
    ///
    /// Some refresh tokens come by two ways, and some users log out at the old system.
    case sessionsMoveIn
    /// The provider refuses some targets, and everything else works.
    ///
    /// So every app must get its session's own token at once.
    case nothingFails
}
