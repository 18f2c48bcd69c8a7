/// A fault that was once found in the broker, with the weather that shows it.
package enum Scenario: String, CaseIterable, Sendable {
    /// The provider calls of one claim share no deadline, so the claim lapses under a living owner.
    case callsOutliveTheirClaim
    /// A take-over that ends in a release is forgotten, so the next refusal condemns.
    case takeOverIsForgotten
    /// A rotated pair is thrown away if the store is away for longer than twenty seconds.
    case storeAwayAmidRefresh
    /// An exchange takes longer than its claim, and the starter's repeat destroys it.
    case exchangeOutlivesItsClaim
    /// A redeemed code is given up with most of its claim left.
    case storeAwayAmidExchange
    /// A changed subject is noticed after the commit, and forgotten in a crash.
    case subjectForgottenByCrash
    /// For some minutes, every token answer is a 401 with an empty body.
    case emptyRefusals
    /// A lost rotation is reported as `grant_revoked`.
    case lostRotationMisnamed
    /// The wall clock steps during a refresh.
    case wallClockSteps
    /// The wall clock is three months ahead, or an hour behind, for some seconds, and every session has run out.
    case wallClockLeaps
    /// The work for a logout token is interrupted between its steps, and its repeat is treated as a replay.
    case interruptedLogoutToken
    /// All processes lose the store for longer than a claim while pairs are on their way, and find it again one after the
    /// other.
    case storeFoundAgainApart
    /// One process is cut off from the store for longer than its claim, and comes back with a pair.
    case holderIsCutOff
    /// A process stands still during a refresh, and receives a refusal long after another has taken over.
    case frozenHolder
    /// Pairs and sessions cannot be written for longer than a claim, while all other writes succeed.
    case writesAreHeld
    /// Users log out while replicas miss each other's notices, and while earlier calls are still on their way.
    case deafReplicas
    /// Strangers forward the codes of other users.
    case strangersForward
    /// One person signs in more often than sessions are allowed.
    case tooManySessions
    /// A revocation takes all of a person's grants along.
    case revocationTakesAll
    /// Unused sessions lapse.
    case sessionsRunOut
    /// Sessions with short idle times are used while the clocks of processes and store are stepped and set right.
    case clocksStepInUse
    /// Many callers ask for a newer token at once, on several processes.
    case manyWantNewer
    /// Apps have widgets. One refresh serves both, and the app's end ends the widget.
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
    /// The store is away for longer than an exchange's claim, while owners have the provider's answers in hand.
    case outagesOutliveExchanges
    /// Step-ups wait during outages of the store, while their users step up again at a process that finds it earlier.
    case stepUpsCrossOutages
    /// Several APIs' tokens come from one refresh token. Some are refused, and sessions step up and end meanwhile.
    case audiencesShareOneGrant

    /// Step-ups have a sign-in that is too weak or another user's, or are finished with another session.
    case unfitSignIns
    /// The provider removes scopes in its refreshes, and sessions step up meanwhile.
    case scopesShrink
    /// The ring gets newer keys, and processes receive them one after the other.
    case keysRotate
    /// Sessions are handed over to pages, which end with them.
    case pagesAreHandedOver
    /// The provider refuses some targets and all else works, so every session has its token at once.
    case nothingFails
}
