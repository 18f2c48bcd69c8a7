import Broker

/// The faults of a run, with their frequency and length.
///
/// Each `Double` is the probability of the event that its comment describes.
struct Weather {
    /// The provider's treatment of a refresh token that was already rotated.
    enum Rotation: CaseIterable {
        /// Strict rotation with reuse detection, so the whole grant ends.
        case reuseDetected
        /// The token is refused, and the grant continues.
        case refused
        /// A repeated idempotency key gets the same answer again.
        case replayed
    }

    /// The provider's treatment of nonces in the broker's proofs.
    enum Nonces {
        /// The provider's tokens are unbound.
        case unbound
        /// The tokens are bound to a key, and proofs need no nonce.
        case none
        /// Proofs need the newest nonce, which stays until it is forgotten.
        case kept
        /// Every answer brings a new nonce, which the next proof needs.
        case changing
    }

    var nonces = Nonces.unbound
    /// The provider forgets its nonces.
    var forgets = 0.0
    /// A refresh is answered without binding the access token.
    var answersBearer = 0.0
    /// Whether the broker's settings state that the provider checks proofs before it spends a refresh token.
    var checksFirst = false
    /// Whether the provider binds its tokens to the certificate that the broker shows.
    var isCertified = false
    /// The number of times that the broker's client certificate is renewed during the run.
    var renewals = 0
    /// The time from a renewal until a broker process shows the new certificate, in milliseconds.
    ///
    /// Each process draws a time of its own.
    var renewalRange = 0...10_000
    /// The time from a renewal until the provider accepts the new certificate, in milliseconds.
    var acceptanceRange = 0...0
    /// The error code of the provider's answer to a certificate that is still unknown to it.
    var certificateRefusal = "invalid_client"
    var processes = 1
    var users = 1
    var rotation = Rotation.reuseDetected
    /// The time that the faults last, in milliseconds.
    ///
    /// Afterwards everything works.
    var length = 180_000
    var accessTokenLife = 40
    // The provider.
    var slow = 0.0
    var slowRange = 4_000...16_000
    var lostBefore = 0.0
    var lostAfter = 0.0
    var retryable = 0.0
    var notSent = 0.0
    /// A refresh reaches the provider long after it was sent.
    var late = 0.0
    var lateRange = 20_000...45_000
    var refusedClient = 0.0
    var identityFails = 0.0
    /// Whether every token answer of the run is a 401 with an empty body.
    var emptyRefusals = false
    /// A refreshed id_token names another user.
    var subjectChanges = 0.0
    /// The time until the provider's keys for a refreshed id_token can be fetched.
    var slowKeys = 0
    /// The user withdraws the grant at the provider.
    var revokedThere = 0.0
    // The store.
    var storeFails = 0.0
    var storeInDoubt = 0.0
    /// The number of outages of the store for all processes, and their lengths.
    var outages = 0
    var outageRange = 1_000...40_000
    /// The delay until a further process finds the store again, after the first process has found it.
    var foundAgainRange = 0...0
    /// The number of times that one process alone is cut off from the store, and the length of each.
    var partitions = 0
    var partitionRange = 1_000...60_000
    /// The number of locks on the tables of sealed values, and their lengths; sessions and pairs then cannot be written.
    var heldWrites = 0
    var heldRange = 5_000...60_000
    /// The number of breaks of a process's listening connection, and their lengths.
    var cuts = 0
    var cutRange = 2_500...20_000
    /// The answer to a read is slow.
    var slowReads = 0.0
    // The processes and their clocks.
    var crashes = 0
    var pauses = 0
    var pauseRange = 1_000...45_000
    var wallJumps = 0
    var wallJumpRange = -45_000...45_000
    /// The number of steps of the store's own clock, as `wallJumps` are steps of a process's clock.
    var storeJumps = 0
    /// Whether a clock is set right again some time after it was stepped.
    var clocksComeBack = false
    /// The number of times that all wall clocks are wrong by three months or an hour, and the length of each.
    var wallLeaps = 0
    var wallLeapRange = 1_000...60_000
    // The callers.
    var hangUps = 0.0
    var logOuts = 0.05
    /// The user logs out at the provider, which repeats its logout token until the broker has accepted it.
    var logOutsThere = 0.0
    /// The time that a user waits between two uses.
    var idleRange = 500...25_000
    /// The app asks for a newer access token than the one that it has.
    var forced = 0.15
    /// The app asks every process for an access token before and after a log-out.
    var probes = 0.3
    /// The app listens to the events of a session.
    var listeners = 0.3
    /// A stranger without the proof forwards the user's callback.
    var strangers = 0.05
    /// The app has a widget, with a child session.
    var children = 0.0
    /// The user signs in again for the session, as an upstream demands.
    var stepUps = 0.0
    /// The app asks for access tokens of other APIs, some of them refused by the provider.
    var targets = 0.0
    /// A step-up's answer has no refresh token.
    var keepsGrant = 0.0
    /// A step-up is answered with the refresh token that the session's grant has then.
    var repeatsToken = 0.0
    /// The share of the repeated refresh tokens that are the grant's newest at the provider, which the broker may not have yet.
    var repeatsNewest = 0.0
    /// The pause between two forced refreshes in seconds, which is short to allow more of them in a run.
    var forcedPause = 0
    /// A step-up's sign-in is weaker than demanded.
    var weakSignIns = 0.0
    /// Another user signs in for a step-up.
    var strangersSignIn = 0.0
    /// A step-up is finished with another session's token.
    var othersFinish = 0.0
    /// A refresh is answered with less scope than before.
    var shrinks = 0.0
    /// The number of times that the ring gets a newer key.
    ///
    /// The processes receive the key one after the other.
    var rotations = 0
    var rotationRange = 0...10_000
    /// The app replaces its widget by another.
    var replacements = 0.0
    /// The app hands the session over to a web page.
    var pages = 0.0
    /// The user makes a call that needs the user's presence.
    ///
    /// If this is above zero, all sessions belong to keys of phones.
    var presence = 0.0
    /// A call that needs presence provably fails to reach its upstream (`unreached`), or its answer is lost
    /// (`upstreamLoses`).
    var unreached = 0.0
    var upstreamLoses = 0.0
    /// The app requests a target that the provider refuses.
    var refusedTargets = 0.0
    /// Whether every session has to get its token at once.
    var isFine = false
    // What is configured.
    /// Whether all users are one person with several sessions.
    var isOnePerson = false
    var sessionLimit = 50
    var reach = RevocationReach.token
    /// The time until an unused session ends; nil for longer than a run.
    var idleEnd: Int?
    /// Whether the clocks of processes or of the store are sometimes wrong.
    var clocksStep: Bool { wallJumps + wallLeaps + storeJumps > 0 }
    /// The longest life of a session beyond its idle time.
    var lateEnd: Int { clocksComeBack ? 180_000 : 1_000 }

    /// Makes the provider bind its tokens to a key, with one of the treatments of nonces that real servers have.
    mutating func bind(_ random: inout SeededRandom) {
        nonces = random.pick([.none, .kept, .changing, .changing])
        forgets = random.pick([0, 0.05, 0.3])
        if random.chance(0.3) { answersBearer = 0.1 }
        checksFirst = random.chance(0.5)
    }

    /// Makes the provider bind its tokens to a certificate that is renewed.
    mutating func certify(_ random: inout SeededRandom) {
        isCertified = true
        renewals = random.number(1...3)
        renewalRange = random.pick([0...0, 0...10_000, 0...40_000])
        acceptanceRange = random.pick([0...0, 0...5_000, 0...40_000])
        certificateRefusal = random.pick(["invalid_client", "unauthorized_client", "invalid_grant"])
    }

    /// Makes calls need the user's presence, and chooses the faults that matter for this.
    mutating func showPresence(_ random: inout SeededRandom) {
        presence = 0.7
        unreached = random.pick([0, 0.3])
        upstreamLoses = random.pick([0, 0.2])
        processes = random.number(1...3)
        users = random.number(1...2)
        slow = 0.2
        slowRange = 500...6_000
        hangUps = random.pick([0, 0.3])
        storeFails = random.pick([0, 0.1])
        storeInDoubt = random.pick([0, 0.1])
        outages = random.number(0...2)
        crashes = random.number(0...4)
        pauses = random.number(0...2)
        cuts = random.number(0...2)
        wallJumps = random.pick([0, 0, 2])
        children = random.pick([0, 0.5])
        stepUps = random.pick([0, 0.2])
        pages = random.pick([0, 0, 0.2])
        idleRange = 300...4_000
        logOuts = 0.03
    }

    /// Returns the mixed weather of a seed, with a few of the kinds of faults at the same time.
    static func mixed(_ random: inout SeededRandom) -> Weather {
        var weather = Weather()
        weather.processes = random.number(1...3)
        weather.users = random.number(1...2)
        weather.rotation = random.pick(Rotation.allCases)
        weather.accessTokenLife = random.pick([15, 40, 90])
        if random.chance(0.4) { weather.slow = random.pick([0.1, 0.4, 0.8]) }
        if random.chance(0.3) { weather.lostBefore = 0.15 }
        if random.chance(0.25) { weather.lostAfter = 0.1 }
        if random.chance(0.3) { weather.retryable = random.pick([0.1, 0.4]) }
        if random.chance(0.2) { weather.notSent = 0.2 }
        if random.chance(0.1) { weather.refusedClient = 0.2 }
        if random.chance(0.1) { weather.identityFails = 0.2 }
        if random.chance(0.03) { weather.emptyRefusals = true }
        if random.chance(0.1) { weather.subjectChanges = 0.1 }
        if random.chance(0.2) { weather.slowKeys = random.number(100...8_000) }
        if random.chance(0.1) { weather.revokedThere = 0.05 }
        if random.chance(0.3) { weather.storeFails = random.pick([0.02, 0.1]) }
        if random.chance(0.3) { weather.storeInDoubt = random.pick([0.02, 0.1]) }
        if random.chance(0.25) {
            weather.outages = random.number(1...3)
            weather.foundAgainRange = 0...3_000
        }
        if random.chance(0.1) { weather.partitions = random.number(1...3) }
        if random.chance(0.1) { weather.heldWrites = random.number(1...2) }
        if random.chance(0.15) { weather.cuts = random.number(1...4) }
        if random.chance(0.1) { weather.late = 0.1 }
        if random.chance(0.1) { weather.slowReads = 0.1 }
        if random.chance(0.25) { weather.crashes = random.number(1...3) }
        if random.chance(0.25) { weather.pauses = random.number(1...3) }
        if random.chance(0.2) { weather.wallJumps = random.number(1...3) }
        if random.chance(0.3) { weather.hangUps = 0.2 }
        if random.chance(0.1) { weather.wallLeaps = random.number(1...3) }
        if random.chance(0.2) { weather.logOutsThere = 0.05 }
        if random.chance(0.3) { weather.children = 0.7 }
        if random.chance(0.4) { weather.bind(&random) }
        if random.chance(0.35) {
            weather.stepUps = random.pick([0.1, 0.3])
            weather.keepsGrant = random.pick([0, 0.3, 1])
        }
        weather.forcedPause = random.pick([0, 0, 10, 60])
        if random.chance(0.35) { weather.targets = random.pick([0.2, 0.6]) }
        if weather.stepUps > 0 {
            weather.weakSignIns = random.pick([0, 0.2])
            weather.strangersSignIn = random.pick([0, 0.1])
            weather.othersFinish = random.pick([0, 0, 0.1])
        }
        if random.chance(0.15) { weather.shrinks = 0.3 }
        if weather.children > 0 { weather.replacements = random.pick([0, 0.15]) }
        if weather.targets > 0 { weather.refusedTargets = random.pick([0, 0.4]) }
        if weather.nonces == .unbound, random.chance(0.3) { weather.certify(&random) }
        if random.chance(0.15) { weather.pages = 0.2 }
        if random.chance(0.12) {
            weather.presence = random.pick([0.1, 0.3])
            weather.unreached = random.pick([0, 0.3])
            weather.upstreamLoses = random.pick([0, 0.1])
        }
        return weather
    }
}
