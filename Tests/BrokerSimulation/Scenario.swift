/// A fault that was once found in the broker, with the weather that shows it.
package enum Scenario: String, CaseIterable, Sendable {
    /// The provider calls of one claim have no common deadline, so the claim lapses while its owner still works.
    case callsOutliveTheirClaim
    /// A take-over of a claim that ends in a release is forgotten, so the next refusal ends the session.
    case takeOverIsForgotten
    /// A rotated pair is thrown away if the store is away for longer than twenty seconds.
    case storeAwayAmidRefresh
    /// An exchange takes longer than its claim, and the starter's repeated forward marks it as spent.
    case exchangeOutlivesItsClaim
    /// A process gives up a redeemed code while most of the claim's time is left.
    case storeAwayAmidExchange
    /// A process notices a changed subject after the commit, and a crash loses this knowledge.
    case subjectForgottenByCrash
    /// For ten minutes, every token answer is a 401 with an empty body.
    case emptyRefusals
    /// The answer with a rotated token is lost, and the session ends with the reason `grant_revoked` instead of
    /// `refresh_lost`.
    case lostRotationMisnamed
    /// The wall clock steps during a refresh.
    case wallClockSteps
    /// For some seconds, the wall clock is an hour behind, or three months ahead, so that every session seems to have
    /// lapsed.
    case wallClockLeaps
    /// The work for a logout token is interrupted between its steps, and its repeat is treated as a replay.
    case interruptedLogoutToken
    /// All processes lose the store for longer than a claim while they wait for pairs, and find the store again one after the
    /// other.
    case storeFoundAgainApart
    /// One process is cut off from the store for longer than its claim, and comes back with a pair.
    case holderIsCutOff
    /// A process pauses during a refresh, and receives a refusal long after another process has taken over the claim.
    case frozenHolder
    /// Token pairs and sessions cannot be written for longer than a claim, while all other writes succeed.
    case writesAreHeld
    /// Users log out while replicas miss each other's notices, and while earlier calls are still on their way.
    case deafReplicas
    /// Strangers forward the codes of other users.
    case strangersForward
    /// One person signs in more often than sessions are allowed.
    case tooManySessions
    /// A revocation of one grant ends all grants of the person.
    case revocationTakesAll
    /// Unused sessions lapse.
    case sessionsRunOut
    /// Sessions with short idle times are used while the clocks of processes and store are stepped and set right.
    case clocksStepInUse
    /// Many callers ask for a newer token at the same time, on several processes.
    case manyWantNewer
    /// Apps have widgets with child sessions. One refresh serves a session and its child, and the session's end ends the
    /// child.
    case familiesEndTogether
    /// The provider requires nonces, changes them with every answer and forgets them. Processes die between a challenge and its
    /// repeat.
    case noncesChange
    /// The provider answers refreshes without binding the access token.
    case bearerAnswers
    /// The provider binds its tokens to a certificate that is renewed, and that processes and provider receive at different
    /// times.
    case certificatesChange
    /// Users sign in again for their sessions during refreshes, and processes die between provider and commit.
    case stepUpsMeetRefreshes
    /// The provider answers step-ups with the refresh token that the session's grant has, while refreshes rotate it.
    case stepUpsRepeatTheToken
    /// The store is away for longer than an exchange's claim, while owners have the provider's answers in memory.
    case outagesOutliveExchanges
    /// Step-ups wait for the store during outages, while their users step up again at a process that finds the store
    /// earlier.
    case stepUpsCrossOutages
    /// Several APIs' tokens come from one refresh token. Some are refused, and sessions step up and end meanwhile.
    case audiencesShareOneGrant

    /// Step-ups have a sign-in that is too weak or another user's, or are finished with another session.
    case unfitSignIns
    /// The provider removes scopes in its refreshes, and sessions step up meanwhile.
    case scopesShrink
    /// The ring gets newer keys, and processes receive them one after the other.
    case keysRotate
    /// Sessions are handed over to pages. Tickets are copied, used twice, late and with wrong secrets, and a page ends with
    /// its session.
    case pagesAreHandedOver
    /// Calls need the user's presence. Their proofs are repeated, copied, old or by another key, while processes die and the
    /// store is away.
    case presenceIsShown
    /// The provider refuses some targets and everything else works, so every app gets its session's token at once.
    case nothingFails
}
