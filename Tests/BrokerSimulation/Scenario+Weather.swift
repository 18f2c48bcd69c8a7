import Broker

extension Scenario {
    /// Returns the weather of the scenario for a seed.
    func weather(_ random: inout SeededRandom) -> Weather {
        var weather = Weather()
        weather.logOuts = 0
        switch self {
        case .callsOutliveTheirClaim:
            weather.slow = 0.8
            weather.slowRange = 9_000...16_000
            weather.lostBefore = 0.3
        case .takeOverIsForgotten:
            weather.processes = 2
            weather.rotation = .refused
            weather.slow = 0.7
            weather.slowRange = 3_000...14_000
            weather.retryable = 0.5
            weather.hangUps = 0.8
            weather.accessTokenLife = 15
            weather.users = 3
            weather.idleRange = 500...6_000
            weather.pauses = 6
            weather.pauseRange = 36_000...56_000
        case .storeAwayAmidRefresh:
            weather.slow = 0.5
            weather.slowRange = 1_000...10_000
            weather.outages = 3
            weather.outageRange = 21_000...40_000
        case .exchangeOutlivesItsClaim:
            weather.slow = 0.9
            weather.slowRange = 9_000...14_900
            weather.hangUps = 0.5
            weather.accessTokenLife = 3600
        case .storeAwayAmidExchange:
            weather.slow = 0.8
            weather.slowRange = 1_000...8_000
            weather.outages = 4
            weather.outageRange = 5_500...14_000
            weather.accessTokenLife = 3600
            weather.logOuts = 0.5
        case .subjectForgottenByCrash:
            weather.subjectChanges = 0.3
            weather.slowKeys = 8_000
            weather.crashes = 3
            weather.processes = 2
        case .emptyRefusals: weather.emptyRefusals = true
        case .lostRotationMisnamed:
            weather.lostAfter = 0.2
            weather.slow = 0.3
            weather.slowRange = 12_000...20_000
        case .wallClockSteps:
            weather.processes = random.number(1...2)
            weather.slow = 0.7
            weather.slowRange = 2_000...9_000
            weather.wallJumps = 8
        case .wallClockLeaps:
            weather.processes = random.number(1...2)
            weather.wallLeaps = 6
            weather.crashes = random.number(0...1)
            weather.idleRange = 500...6_000
        case .interruptedLogoutToken:
            weather.processes = random.number(1...2)
            weather.logOutsThere = 0.4
            weather.storeFails = 0.2
            weather.storeInDoubt = 0.2
            weather.crashes = 4
            weather.idleRange = 500...6_000
        case .storeFoundAgainApart:
            weather.processes = random.number(2...3)
            weather.users = 4
            weather.accessTokenLife = 15
            weather.slow = 0.5
            weather.slowRange = 2_000...12_000
            weather.idleRange = 300...3_000
            weather.length = 500_000
            weather.outages = 4
            weather.outageRange = 18_000...130_000
            weather.foundAgainRange = 0...3_000
        case .holderIsCutOff:
            weather.processes = random.number(2...3)
            weather.users = 3
            weather.rotation = random.pick([.refused, .replayed])
            weather.accessTokenLife = 15
            weather.slow = 0.5
            weather.slowRange = 2_000...12_000
            weather.idleRange = 300...4_000
            weather.partitions = 8
            weather.partitionRange = 8_000...120_000
            weather.length = 300_000
        case .frozenHolder:
            weather.processes = 2
            weather.users = 4
            weather.rotation = .refused
            weather.accessTokenLife = 15
            weather.slow = 0.5
            weather.slowRange = 2_000...12_000
            weather.late = 0.4
            weather.idleRange = 300...4_000
            weather.length = 300_000
            weather.pauses = 8
            weather.pauseRange = 26_000...130_000
            weather.outages = 1
        case .writesAreHeld:
            weather.processes = 2
            weather.users = 4
            weather.accessTokenLife = 15
            weather.slow = 0.3
            weather.slowRange = 1_000...8_000
            weather.idleRange = 300...4_000
            weather.hangUps = 0.3
            weather.length = 400_000
            weather.heldWrites = 2
            weather.heldRange = 30_000...140_000
            weather.logOuts = 0.05
        case .deafReplicas:
            weather.processes = random.number(1...3)
            weather.users = 3
            weather.logOuts = 0.3
            weather.probes = 1
            weather.listeners = 1
            weather.cuts = 6
            weather.slowReads = 0.3
            weather.idleRange = 300...4_000
            weather.storeInDoubt = 0.05
        case .strangersForward:
            weather.processes = 2
            weather.users = 2
            weather.strangers = 1
            weather.logOuts = 0.4
            weather.lostBefore = 0.2
            weather.retryable = 0.2
            weather.identityFails = 0.2
            weather.idleRange = 300...4_000
        case .tooManySessions:
            weather.processes = 2
            weather.users = 4
            weather.isOnePerson = true
            weather.sessionLimit = 2
            weather.logOuts = 0.1
            weather.idleRange = 1_000...8_000
        case .revocationTakesAll:
            weather.users = 3
            weather.isOnePerson = true
            weather.reach = .user
            weather.logOuts = 0.2
            weather.slow = 0.3
            weather.slowRange = 500...4_000
            weather.accessTokenLife = 15
            weather.idleRange = 1_000...8_000
        case .sessionsRunOut:
            weather.processes = random.number(1...2)
            weather.users = 2
            weather.idleEnd = 20_000
            weather.idleRange = 1_000...30_000
            weather.children = random.pick([0, 0.7])
            weather.pages = random.pick([0, 0.2])
        case .clocksStepInUse:
            weather.processes = random.number(1...3)
            weather.users = 2
            weather.idleEnd = random.pick([30_000, 120_000, 600_000])
            weather.idleRange = 1_000...10_000
            weather.accessTokenLife = 3600
            weather.length = 900_000
            weather.wallJumps = random.number(1...3)
            weather.storeJumps = random.number(1...3)
            weather.wallJumpRange = -120_000...120_000
            weather.clocksComeBack = true
            weather.children = random.pick([0, 0.5])
        case .manyWantNewer:
            weather.processes = random.number(1...3)
            weather.users = 2
            weather.forced = 0.7
            weather.slow = 0.3
            weather.slowRange = 500...4_000
            weather.lostBefore = 0.1
            weather.accessTokenLife = 90
            weather.idleRange = 300...6_000
        case .familiesEndTogether:
            weather.processes = random.number(1...3)
            weather.users = 2
            weather.children = 1
            weather.replacements = random.pick([0, 0.3])
            weather.listeners = 0.7
            weather.logOuts = 0.15
            weather.logOutsThere = 0.1
            weather.probes = 0.7
            weather.storeFails = 0.05
            weather.storeInDoubt = 0.1
            weather.slow = 0.3
            weather.slowRange = 500...9_000
            weather.accessTokenLife = 15
            weather.crashes = random.number(0...2)
            weather.cuts = random.number(0...2)
            weather.idleRange = 300...5_000
        case .noncesChange:
            weather.bind(&random)
            weather.nonces = random.pick([.kept, .changing])
            weather.forgets = 0.3
            weather.processes = random.number(1...3)
            weather.users = random.number(2...4)
            weather.accessTokenLife = 15
            weather.slow = 0.3
            weather.slowRange = 500...6_000
            weather.lostBefore = random.pick([0, 0.1])
            weather.crashes = random.number(0...3)
            weather.forced = 0.4
            weather.idleRange = 300...6_000
        case .bearerAnswers:
            weather.bind(&random)
            weather.answersBearer = 0.3
            weather.processes = random.number(1...2)
            weather.users = 2
            weather.accessTokenLife = 15
            weather.forced = 0.4
            weather.idleRange = 300...9_000
            weather.crashes = random.number(0...2)
        case .certificatesChange:
            weather.certify(&random)
            weather.renewals = random.number(2...5)
            weather.processes = random.number(1...3)
            weather.users = random.number(1...3)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.accessTokenLife = random.pick([15, 40, 3600])
            weather.slow = 0.3
            weather.slowRange = 500...6_000
            weather.lostBefore = random.pick([0, 0.1])
            weather.forced = 0.3
            weather.targets = random.pick([0, 0.4])
            weather.stepUps = random.pick([0, 0.3])
            weather.keepsGrant = random.pick([0, 0.5])
            weather.children = random.pick([0, 0.5])
            weather.crashes = random.number(0...2)
            weather.idleRange = 300...6_000
            weather.logOuts = 0.03
        case .stepUpsMeetRefreshes:
            weather.processes = random.number(1...3)
            weather.users = random.number(2...3)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.stepUps = 0.5
            weather.keepsGrant = random.pick([0, 0.3, 1])
            weather.accessTokenLife = 15
            weather.slow = 0.5
            weather.slowRange = 500...9_000
            weather.late = random.pick([0, 0, 0.2])
            weather.lostBefore = random.pick([0, 0.1])
            weather.forced = 0.5
            weather.storeInDoubt = random.pick([0, 0.1])
            weather.crashes = random.number(0...3)
            weather.idleRange = 300...3_000
            weather.logOuts = 0.02
            weather.subjectChanges = random.pick([0, 0, 0.05])
            if random.chance(0.3) { weather.bind(&random) }
        case .stepUpsRepeatTheToken:
            weather.processes = random.number(1...3)
            weather.users = random.number(1...3)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.stepUps = 0.7
            weather.repeatsToken = random.pick([0.5, 1])
            weather.repeatsNewest = random.pick([0, 0.5, 1])
            weather.accessTokenLife = 15
            weather.slow = 0.6
            weather.slowRange = 500...9_000
            weather.forced = 0.5
            weather.identityFails = random.pick([0, 0.2])
            weather.idleRange = 300...3_000
            weather.logOuts = 0.02
        case .outagesOutliveExchanges:
            weather.processes = random.number(1...3)
            weather.users = 6
            weather.accessTokenLife = 3600
            weather.slow = 0.5
            weather.slowRange = 500...8_000
            weather.hangUps = 0.3
            weather.idleRange = 300...4_000
            weather.logOuts = 0.4
            weather.stepUps = 0.3
            weather.length = 500_000
            weather.outages = 4
            weather.outageRange = 20_000...130_000
            weather.foundAgainRange = 0...3_000
        case .stepUpsCrossOutages:
            weather.processes = random.number(2...3)
            weather.users = random.number(2...4)
            weather.accessTokenLife = 3600
            weather.slow = 0.3
            weather.slowRange = 500...6_000
            weather.idleRange = 300...2_000
            weather.stepUps = 0.9
            weather.keepsGrant = random.pick([0, 0.3])
            weather.forced = 0
            weather.logOuts = 0
            weather.length = 600_000
            weather.outages = 3
            weather.outageRange = 95_000...130_000
            weather.foundAgainRange = 0...25_000
        case .audiencesShareOneGrant:
            weather.processes = random.number(1...3)
            weather.users = random.number(1...3)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.targets = 0.8
            weather.accessTokenLife = random.pick([15, 40])
            weather.slow = 0.4
            weather.slowRange = 500...9_000
            weather.late = random.pick([0, 0, 0.1])
            weather.lostBefore = random.pick([0, 0.15])
            weather.lostAfter = random.pick([0, 0, 0.1])
            weather.retryable = random.pick([0, 0.1])
            weather.forced = 0.4
            weather.storeFails = random.pick([0, 0.05])
            weather.storeInDoubt = random.pick([0, 0.1])
            weather.crashes = random.number(0...3)
            weather.pauses = random.number(0...2)
            weather.children = random.pick([0, 0.5])
            weather.idleRange = 300...3_000
            weather.logOuts = 0.03
            weather.stepUps = random.pick([0, 0.2])
            weather.keepsGrant = random.pick([0, 0.3])
            weather.revokedThere = random.pick([0, 0, 0.05])
            weather.subjectChanges = random.pick([0, 0, 0.05])
            if random.chance(0.3) { weather.bind(&random) }
        case .unfitSignIns:
            weather.processes = random.number(1...3)
            weather.users = random.number(2...3)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.stepUps = 0.6
            weather.weakSignIns = 0.3
            weather.strangersSignIn = 0.3
            weather.othersFinish = 0.3
            weather.keepsGrant = random.pick([0, 0.3])
            weather.repeatsToken = random.pick([0, 0.5])
            weather.accessTokenLife = 15
            weather.slow = 0.3
            weather.slowRange = 500...6_000
            weather.forced = 0.4
            weather.storeFails = random.pick([0, 0.05])
            weather.storeInDoubt = random.pick([0, 0.1])
            weather.crashes = random.number(0...2)
            weather.idleRange = 300...4_000
            weather.logOuts = 0.03
        case .scopesShrink:
            weather.processes = random.number(1...3)
            weather.users = 2
            weather.shrinks = 0.5
            weather.stepUps = random.pick([0, 0.5])
            weather.keepsGrant = 1
            weather.targets = random.pick([0, 0.3])
            weather.accessTokenLife = 15
            weather.slow = 0.5
            weather.slowRange = 500...6_000
            weather.forced = 0.5
            weather.storeInDoubt = random.pick([0, 0.1])
            weather.crashes = random.number(0...2)
            weather.idleRange = 300...4_000
        case .keysRotate:
            weather.processes = random.number(2...3)
            weather.users = random.number(2...3)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.rotations = random.number(2...6)
            weather.rotationRange = random.pick([0...10_000, 0...40_000])
            weather.accessTokenLife = 15
            weather.slow = 0.5
            weather.slowRange = 500...9_000
            weather.forced = 0.4
            weather.stepUps = random.pick([0, 0.4])
            weather.keepsGrant = random.pick([0, 0.5])
            weather.shrinks = random.pick([0, 0.3])
            weather.targets = random.pick([0, 0.4])
            weather.children = random.pick([0, 0.5])
            weather.logOuts = 0.05
            weather.idleRange = 300...4_000
            if random.chance(0.3) { weather.bind(&random) }
        case .pagesAreHandedOver:
            weather.processes = random.number(1...3)
            weather.users = 2
            weather.pages = 0.5
            weather.children = random.pick([0, 0.5])
            weather.accessTokenLife = 15
            weather.slow = 0.2
            weather.slowRange = 500...6_000
            weather.logOuts = 0.1
            weather.logOutsThere = random.pick([0, 0.05])
            weather.storeFails = random.pick([0, 0.05])
            weather.storeInDoubt = random.pick([0, 0.1])
            weather.crashes = random.number(0...2)
            weather.cuts = random.number(0...2)
            weather.hangUps = random.pick([0, 0.2])
            weather.outages = random.number(0...1)
            weather.wallJumps = random.pick([0, 0, 2])
            weather.storeJumps = random.pick([0, 0, 2])
            weather.slowReads = random.pick([0, 0.2])
            weather.rotations = random.pick([0, 0, 2])
            weather.idleRange = 300...4_000
        case .presenceIsShown:
            weather.showPresence(&random)
        case .tokensAreImported:
            weather.processes = random.number(1...3)
            weather.users = random.number(2...4)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.imports = 0.9
            weather.refusesNewTokens = random.pick([0, 0.4])
            weather.slow = random.pick([0.2, 0.6])
            weather.slowRange = 500...16_000
            weather.lostBefore = random.pick([0, 0.3])
            weather.lostAfter = random.pick([0, 0.3])
            weather.retryable = random.pick([0, 0.3])
            weather.notSent = random.pick([0, 0.2])
            weather.refusedClient = random.pick([0, 0, 0.2])
            weather.identityFails = random.pick([0, 0.3])
            weather.hangUps = random.pick([0, 0.4])
            weather.storeFails = random.pick([0, 0.05])
            weather.storeInDoubt = random.pick([0, 0.1])
            weather.crashes = random.number(0...4)
            weather.pauses = random.number(0...2)
            weather.outages = random.number(0...2)
            weather.accessTokenLife = 3600
            weather.idleRange = 300...3_000
            weather.logOuts = 0.4
        case .sessionsMoveIn:
            weather.processes = random.number(1...3)
            weather.users = random.number(2...4)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.moving = MovingWeather.mixed(&random)
            weather.moving.moves = 0.9
            weather.imports = random.pick([0, 0, 0.3])
            weather.refusesNewTokens = random.pick([0, 0, 0.4])
            weather.slow = random.pick([0.1, 0.4])
            weather.slowRange = 500...16_000
            weather.lostBefore = random.pick([0, 0.2])
            weather.lostAfter = random.pick([0, 0.2])
            weather.retryable = random.pick([0, 0.3])
            weather.notSent = random.pick([0, 0.2])
            weather.identityFails = random.pick([0, 0.3])
            weather.hangUps = random.pick([0, 0.4])
            weather.storeFails = random.pick([0, 0, 0.05])
            weather.storeInDoubt = random.pick([0, 0, 0.1])
            weather.crashes = random.number(0...4)
            weather.pauses = random.pick([0, 0, 1, 2])
            weather.outages = random.pick([0, 0, 1, 2])
            weather.wallJumps = random.pick([0, 0, 0, 2])
            weather.accessTokenLife = 3600
            weather.idleRange = 300...3_000
            weather.logOuts = 0.5
            weather.strangers = 0.2
        case .nothingFails:
            weather.processes = random.number(1...3)
            weather.users = random.number(1...3)
            weather.rotation = random.pick(Weather.Rotation.allCases)
            weather.accessTokenLife = random.pick([15, 40])
            weather.targets = random.pick([0, 0.5])
            weather.isFine = true
            weather.refusedTargets = 0.5
            weather.forced = 0.3
            weather.stepUps = random.pick([0, 0.3])
            weather.keepsGrant = random.pick([0, 0.3, 1])
            weather.weakSignIns = 0.2
            weather.strangersSignIn = 0.1
            weather.shrinks = random.pick([0, 0.3])
            weather.children = random.pick([0, 0.7])
            weather.replacements = 0.2
            weather.pages = random.pick([0, 0.2])
            weather.presence = random.pick([0, 0.3])
            weather.idleRange = 300...6_000
            weather.logOuts = 0.03
            if random.chance(0.3) {
                weather.bind(&random)
            } else if random.chance(0.3) {
                weather.certify(&random)
                weather.acceptanceRange = 0...0
            }
        }
        return weather
    }
}
