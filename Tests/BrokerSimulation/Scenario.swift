/// A fault that was found in the broker, as the weather that shows it.
package enum Scenario: String, CaseIterable, Sendable {
    /// The provider calls of one claim share no deadline: the claim lapses under a living owner.
    case callsOutliveTheirClaim
    /// A take-over that ends in a release is forgotten, and the next refusal condemns.
    case takeOverIsForgotten
    /// A rotated pair is thrown away when the store is away for longer than twenty seconds.
    case storeAwayAmidRefresh
    /// An exchange takes longer than its claim, and the starter's repeat destroys it.
    case exchangeOutlivesItsClaim
    /// A redeemed code is given up with most of its claim left.
    case storeAwayAmidExchange
    /// Another subject is looked at after the commit and forgotten by a crash.
    case subjectForgottenByCrash
    /// Every token answer is a 401 without a body for some minutes.
    case emptyRefusals
    /// A lost rotation is called `grant_revoked`.
    case lostRotationMisnamed
    /// The wall clock steps during a refresh.
    case wallClockSteps
    /// The wall clock is three months ahead, or an hour behind, for some seconds, and every session has run out.
    case wallClockLeaps
    /// A logout token's work is broken off between its steps, and its repeat is taken for a replay.
    case interruptedLogoutToken
    /// All lose the store for longer than a claim while pairs are on their way, and find it again one after the other.
    case storeFoundAgainApart
    /// One process is cut off from the store for longer than its claim, and comes back with a pair.
    case holderIsCutOff
    /// A process stands still amid a refresh, and hears a refusal long after another has taken over.
    case frozenHolder
    /// Pairs and sessions cannot be written for longer than a claim, while everything else can.
    case writesAreHeld
    /// Log-outs while replicas do not hear of each other, and while what was asked before is on its way.
    case deafReplicas
    /// Strangers forward the codes of others.
    case strangersForward
    /// One person signs in more often than sessions are allowed.
    case tooManySessions
    /// Revoking takes all of a person's grants along.
    case revocationTakesAll
    /// Sessions that nobody uses run out.
    case sessionsRunOut
    /// Sessions with short idle times are used while the clocks of processes and store are stepped and set right.
    case clocksStepInUse
    /// Many ask for a newer token at once, on several processes.
    case manyWantNewer
    /// Apps and their widgets: one refresh serves both, and the app's end is the widget's.
    case familiesEndTogether
    /// The provider demands nonces, changes them with every answer and forgets them, while processes die between a challenge
    /// and its repeat.
    case noncesChange
    /// The provider answers refreshes without binding the access token.
    case bearerAnswers
    /// Users sign in again for their sessions while these are refreshed, and processes die between provider and commit.
    case stepUpsMeetRefreshes
    /// The provider answers step-ups with the refresh token that the session's grant has, while refreshes rotate it.
    case stepUpsRepeatTheToken
    /// The store is away for longer than an exchange's claim, while owners have the provider's answers in hand.
    case outagesOutliveExchanges
    /// Step-ups are kept over outages of the store, while their users step up again at a process that finds it earlier.
    case stepUpsCrossOutages
    /// Several APIs' tokens come of one refresh token, some are refused, and sessions step up and end meanwhile.
    case audiencesShareOneGrant

    /// Step-ups whose sign-in is too weak, of another user, or finished with another session.
    case unfitSignIns
    /// The provider takes scopes away with its refreshes, and sessions step up meanwhile.
    case scopesShrink
    /// The ring gets newer keys, and processes have them one after the other.
    case keysRotate
    /// Sessions are handed over to pages, which end with them.
    case pagesAreHandedOver
    /// The provider refuses some targets, all else works, and every session has its token at once.
    case nothingFails
}
