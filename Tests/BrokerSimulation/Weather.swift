import Broker

/// The faults of a simulation run, with their frequency and length.
///
/// A `Double` without a comment is the probability of the event in its name.
struct Weather {
    /// The provider's reaction if a refresh token is sent after it was rotated.
    enum Rotation: CaseIterable {
        /// The provider detects the reuse and ends the whole grant.
        case reuseDetected
        /// The provider refuses the token, and the grant stays alive.
        case refused
        /// If the call has the idempotency key of the last refresh, the provider repeats its answer; otherwise it refuses the
        /// token.
        case replayed
    }

    /// The provider's rule for the nonces in the broker's proofs.
    enum Nonces {
        /// The provider's tokens are bound to no key, so the broker sends no proofs.
        case unbound
        /// The provider's tokens are bound to a key, and the broker's proofs need no nonce.
        case none
        /// The broker's proofs need the provider's newest nonce.
        ///
        /// The provider accepts this nonce any number of times, until it forgets its nonces (`forgets`).
        case kept
        /// The broker's proofs need a nonce, and every answer of the provider contains the nonce for the next proof.
        case changing
    }

    var nonces = Nonces.unbound
    /// The probability that the provider stops accepting the nonces that it has issued so far.
    var forgets = 0.0
    /// The probability that the answer to a refresh has an access token that is bound to no key.
    var answersBearer = 0.0
    /// Whether a setting tells the broker that the provider checks proofs before it rotates a refresh token.
    var checksFirst = false
    /// Whether the provider binds its tokens to the broker's client certificate.
    var isCertified = false
    /// The number of times that the broker's client certificate is renewed during the run.
    var renewals = 0
    /// The time from a certificate's renewal until a broker process uses the new certificate, in milliseconds.
    ///
    /// Each process draws a time of its own from this range.
    var renewalRange = 0...10_000
    /// The time from a certificate's renewal until the provider accepts the new certificate, in milliseconds.
    var acceptanceRange = 0...0
    /// The error code of the provider's answer while the provider does not yet accept the broker's certificate.
    var certificateRefusal = "invalid_client"
    var processes = 1
    var users = 1
    var rotation = Rotation.reuseDetected
    /// The length of the part of the run that has faults, in milliseconds.
    ///
    /// Afterwards the provider, the store and the processes work without faults.
    var length = 180_000
    var accessTokenLife = 40
    // The faults of the provider.
    var slow = 0.0
    var slowRange = 4_000...16_000
    var lostBefore = 0.0
    var lostAfter = 0.0
    var retryable = 0.0
    var notSent = 0.0
    /// The probability that a refresh reaches the provider long after it was sent.
    var late = 0.0
    var lateRange = 20_000...45_000
    var refusedClient = 0.0
    var identityFails = 0.0
    /// Whether every answer of the provider's token endpoint is a 401 with an empty body, for ten minutes of the run.
    var emptyRefusals = false
    /// The probability that the id_token in the answer to a refresh names another user.
    var subjectChanges = 0.0
    /// The time until the broker can fetch the provider's keys, which it needs to check the id_token of a refresh, in
    /// milliseconds.
    var slowKeys = 0
    /// The probability that the user withdraws the grant at the provider.
    var revokedThere = 0.0
    // The faults of the store.
    var storeFails = 0.0
    var storeInDoubt = 0.0
    /// The number of times that all processes lose the store, and the length of such an outage in milliseconds.
    var outages = 0
    var outageRange = 1_000...40_000
    /// After an outage, the time until a process finds the store again, in milliseconds.
    ///
    /// Each process draws a time of its own.
    var foundAgainRange = 0...0
    /// The number of times that a single process is cut off from the store, and the length of each cut in milliseconds.
    var partitions = 0
    var partitionRange = 1_000...60_000
    /// The number of times that the tables of sealed values are locked, and the length of each lock in milliseconds.
    ///
    /// Sessions and token pairs cannot be written meanwhile.
    var heldWrites = 0
    var heldRange = 5_000...60_000
    /// The number of times that the connection for notices of a process breaks, and the length of each break in milliseconds.
    var cuts = 0
    var cutRange = 2_500...20_000
    /// The probability that the store answers a read late.
    var slowReads = 0.0
    // The faults of the processes and of their clocks.
    var crashes = 0
    var pauses = 0
    var pauseRange = 1_000...45_000
    var wallJumps = 0
    var wallJumpRange = -45_000...45_000
    /// The number of times that the store's own clock is set to another time. (`wallJumps` is this number for a process's
    /// clock.)
    var storeJumps = 0
    /// Whether a clock that was set to a wrong time is set right again some time later.
    var clocksComeBack = false
    /// The number of times that all wall clocks are wrong (three months ahead or an hour behind), and the length of each time
    /// in milliseconds.
    var wallLeaps = 0
    var wallLeapRange = 1_000...60_000
    // The acts of the callers.
    var hangUps = 0.0
    var logOuts = 0.05
    /// The probability that the user logs out at the provider.
    ///
    /// The provider sends its logout token again until the broker has accepted it.
    var logOutsThere = 0.0
    /// The time that a user waits between two uses of the session, in milliseconds.
    var idleRange = 500...25_000
    /// The probability that the app asks for a newer access token than the one that it already has.
    var forced = 0.15
    /// The probability that the app asks each process for an access token, before and after it logs the session out.
    var probes = 0.3
    /// The probability that the app subscribes to the event stream of its session.
    var listeners = 0.3
    /// The probability that another program, which lacks the login token and the verifier, forwards the user's callback.
    var strangers = 0.05
    /// The probability that the app has a widget that gets a child session.
    var children = 0.0
    /// The probability that the user makes a step-up for the session, because an upstream demands it.
    var stepUps = 0.0
    /// The probability that the app asks for access tokens for other APIs than the session's own.
    ///
    /// The provider refuses some of these APIs.
    var targets = 0.0
    /// The probability that the provider's answer to a step-up has no refresh token, so the session keeps its grant.
    var keepsGrant = 0.0
    /// The probability that the provider's answer to a step-up repeats the refresh token of the session's grant.
    var repeatsToken = 0.0
    /// The probability that a refresh token which a step-up's answer repeats is the newest at the provider.
    ///
    /// The broker may not have stored the newest one yet.
    var repeatsNewest = 0.0
    /// The shortest time between two forced refreshes, in seconds.
    ///
    /// A short time allows more forced refreshes in a run.
    var forcedPause = 0
    /// The probability that the sign-in of a step-up is weaker than the demand.
    var weakSignIns = 0.0
    /// The probability that another user signs in for a step-up.
    var strangersSignIn = 0.0
    /// The probability that the app finishes a step-up with another session's token.
    var othersFinish = 0.0
    /// The probability that the answer to a refresh has less scope than the session had before.
    var shrinks = 0.0
    /// The number of times that the key ring gets a newer key.
    ///
    /// One process after the other receives the new key.
    var rotations = 0
    var rotationRange = 0...10_000
    /// The probability that the app replaces the child session of its widget by a new one.
    var replacements = 0.0
    /// The probability that the app hands its session over to a web page.
    var pages = 0.0
    /// The probability that a person signs in by the import of a token that the app already has.
    var imports = 0.0
    /// The probability that userinfo refuses the access token that an import has brought (401).
    var refusesNewTokens = 0.0
    /// The moves from an old system.
    var moving = MovingWeather()
    /// The probability that the app makes a call that its user has to confirm (presence).
    ///
    /// If it is above zero, all sessions are bound to keys of phones.
    var presence = 0.0
    /// The probability that a call with a presence proof provably fails to reach its upstream (`unreached`), and that the
    /// upstream's answer is lost (`upstreamLoses`).
    var unreached = 0.0
    var upstreamLoses = 0.0
    /// The probability that a target that the app requests is one that the provider refuses.
    var refusedTargets = 0.0
    /// Whether the run has no faults that could delay a session's own access token, so every app must get this token at once.
    var isFine = false
    // The settings of the broker and of the provider.
    /// Whether all users are one person with several sessions.
    var isOnePerson = false
    var sessionLimit = 50
    var reach = RevocationReach.token
    /// The time after which an unused session lapses, in milliseconds; nil if this time is longer than a run.
    var idleEnd: Int?
    /// Whether the clocks of processes or of the store are sometimes wrong.
    var clocksStep: Bool { wallJumps + wallLeaps + storeJumps > 0 }
    /// The longest time for which the broker may still accept a session after its idle end, in milliseconds.
    var lateEnd: Int { clocksComeBack ? 180_000 : 1_000 }

    /// Makes the provider bind its tokens to a key, with one of the rules for nonces that real servers have.
    mutating func bind(_ random: inout SeededRandom) {
        nonces = random.pick([.none, .kept, .changing, .changing])
        forgets = random.pick([0, 0.05, 0.3])
        if random.chance(0.3) { answersBearer = 0.1 }
        checksFirst = random.chance(0.5)
    }

    /// Makes the provider bind its tokens to the broker's client certificate, which is renewed during the run.
    mutating func certify(_ random: inout SeededRandom) {
        isCertified = true
        renewals = random.number(1...3)
        renewalRange = random.pick([0...0, 0...10_000, 0...40_000])
        acceptanceRange = random.pick([0...0, 0...5_000, 0...40_000])
        certificateRefusal = random.pick(["invalid_client", "unauthorized_client", "invalid_grant"])
    }

    /// Makes some calls need the user's presence, and chooses the faults that affect such calls.
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

    /// Returns weather that mixes a few kinds of faults.
    ///
    /// The seed decides which.
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
        if random.chance(0.25) { weather.imports = random.pick([0.3, 0.8]) }
        if random.chance(0.2) { weather.moving = MovingWeather.mixed(&random) }
        if random.chance(0.3) { weather.refusesNewTokens = random.pick([0.2, 0.6]) }
        return weather
    }
}
