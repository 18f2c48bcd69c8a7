import Broker

/// The faults of a run, how often they come and for how long.
struct Weather {
    /// The provider's treatment of a refresh token that has been rotated away.
    enum Rotation: CaseIterable {
        /// Strict rotation with reuse detection: the whole family dies.
        case reuseDetected
        /// It is refused, and the family lives.
        case refused
        /// The same idempotency key gets the same answer again.
        case replayed
    }

    /// The provider's way with nonces for our proofs.
    enum Nonces {
        /// Its tokens are bound to nobody.
        case unbound
        /// They are bound to a key, and proofs need no nonce.
        case none
        /// Proofs need the newest nonce, which stays until it is forgotten.
        case kept
        /// Every answer makes a new one.
        case changing
    }

    var nonces = Nonces.unbound
    /// The provider forgets its nonces.
    var forgets = 0.0
    /// A refresh is answered without binding the access token.
    var answersBearer = 0.0
    /// Whether the broker is told that proofs are looked at before a refresh token is spent.
    var checksFirst = false
    var processes = 1
    var users = 1
    var rotation = Rotation.reuseDetected
    /// The time for which the faults last; afterwards everything works.
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
    /// Every token answer of the run is a 401 without a body.
    var emptyRefusals = false
    /// A refreshed id_token names somebody else.
    var subjectChanges = 0.0
    /// The time that the keys to look at a refreshed id_token take.
    var slowKeys = 0
    /// The user withdraws the grant at the provider.
    var revokedThere = 0.0
    // The store.
    var storeFails = 0.0
    var storeInDoubt = 0.0
    /// The number of outages of the store for all, and their lengths.
    var outages = 0
    var outageRange = 1_000...40_000
    /// The delay after the first with which a process may find the store again.
    var foundAgainRange = 0...0
    /// The number of times that one process alone is cut off from the store, and their lengths.
    var partitions = 0
    var partitionRange = 1_000...60_000
    /// The number of times that somebody locks the tables of sealed values: sessions and pairs cannot be written, all else can.
    var heldWrites = 0
    var heldRange = 5_000...60_000
    /// The number of breaks of a process's listening connection, and their lengths.
    var cuts = 0
    var cutRange = 2_500...20_000
    /// A read takes long on its way back.
    var slowReads = 0.0
    // The processes and their clocks.
    var crashes = 0
    var pauses = 0
    var pauseRange = 1_000...45_000
    var wallJumps = 0
    var wallJumpRange = -45_000...45_000
    /// The number of times that the store's own clock is stepped, as the processes' are by `wallJumps`.
    var storeJumps = 0
    /// Whether a clock that is stepped is set right again after a while.
    var clocksComeBack = false
    /// The number of times that a wall clock is wrong by three months, and their lengths.
    var wallLeaps = 0
    var wallLeapRange = 1_000...60_000
    // The callers.
    var hangUps = 0.0
    var logOuts = 0.05
    /// The user logs out at the provider, which sends a logout token until it is taken.
    var logOutsThere = 0.0
    /// The time that a user waits between two uses.
    var idleRange = 500...25_000
    /// Asks for a newer token than the one it has.
    var forced = 0.15
    /// Asks every process before and after a log-out.
    var probes = 0.3
    /// Listens to the events of a session.
    var listeners = 0.3
    /// Somebody without the proof forwards what the user has forwarded.
    var strangers = 0.05
    /// Has a widget, with a session of its own behind the app's.
    var children = 0.0
    /// Signs in again for the session, as an upstream asked.
    var stepUps = 0.0
    /// Asks for access tokens of other APIs, some of which the provider refuses.
    var targets = 0.0
    /// A step-up is answered without a refresh token.
    var keepsGrant = 0.0
    /// A step-up is answered with the refresh token that the session's grant has then.
    var repeatsToken = 0.0
    /// The share of the repeated refresh tokens that are the provider's newest, which the broker may still have to store.
    var repeatsNewest = 0.0
    /// The time for which a token that was forced is not forced again, in seconds: shorter than in earnest, for more refreshes.
    var forcedPause = 0
    /// A step-up's sign-in is weaker than was asked.
    var weakSignIns = 0.0
    /// Another user signs in for a step-up.
    var strangersSignIn = 0.0
    /// A step-up is finished with another session's token.
    var othersFinish = 0.0
    /// A refresh is answered with less scope than before.
    var shrinks = 0.0
    /// The number of times that the ring gets a newer key, which processes have one after the other.
    var rotations = 0
    var rotationRange = 0...10_000
    /// Makes another widget in the place of the former widget.
    var replacements = 0.0
    /// Hands the session over to a web page.
    var pages = 0.0
    /// Requests a target that the provider refuses.
    var refusedTargets = 0.0
    /// Whether every session has its token at once.
    var isFine = false
    // What is configured.
    /// All users are one person with several sessions.
    var isOnePerson = false
    var sessionLimit = 50
    var reach = RevocationReach.token
    /// The time without use after which a session ends; nil for longer than a run.
    var idleEnd: Int?
    /// Whether times of processes or of the store are wrong now and then.
    var clocksStep: Bool { wallJumps + wallLeaps + storeJumps > 0 }
    /// The most that a session may live beyond its idle time.
    var lateEnd: Int { clocksComeBack ? 180_000 : 1_000 }

    /// Has the provider bind its tokens, and give nonces in one of the ways that servers do.
    mutating func bind(_ random: inout SeededRandom) {
        nonces = random.pick([.none, .kept, .changing, .changing])
        forgets = random.pick([0, 0.05, 0.3])
        if random.chance(0.3) { answersBearer = 0.1 }
        checksFirst = random.chance(0.5)
    }

    /// Returns the weather of a seed: a few kinds of trouble at once, never all.
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
        return weather
    }
}
