import Testing

@testable import Broker

@Suite("Step-up: the demand, and the stored sign-in", .timeLimit(.minutes(1)))
struct StepUpTests {
    private let now = WallTime(seconds: 1_795_000_000)

    private func isMet(
        _ demand: StepUpDemand, acr: String? = "mfa", secondsAgo: Int64? = 10, leeway: Int64 = 60
    ) -> Bool {
        let signIn = SignInFacts(contextClass: acr, authenticatedAt: secondsAgo.map { 1_795_000_000 - $0 })
        return demand.isMet(by: signIn, at: now, leeway: .seconds(leeway))
    }

    @Test("A demanded `acr` → met only by the same bytes; a demanded age → unmet if the time of the sign-in is unknown")
    func demands() {
        let classes = StepUpDemand(contextClasses: ["phr", "mfa"])
        #expect(isMet(classes))
        #expect(isMet(classes, secondsAgo: nil))
        for other in [nil, "", "MFA", "mfa ", "pwd"] { #expect(!isMet(classes, acr: other)) }
        // The two texts look the same, but have different bytes. So they count as different `acr` values.
        #expect(!isMet(StepUpDemand(contextClasses: ["caf\u{E9}"]), acr: "cafe\u{301}"))
        let age = StepUpDemand(maximumAge: 300)
        #expect(isMet(age, acr: nil))
        #expect(isMet(age, secondsAgo: 360) && !isMet(age, secondsAgo: 361))
        #expect(isMet(age, secondsAgo: -60) && !isMet(age, secondsAgo: -61))
        #expect(!isMet(age, secondsAgo: nil))
        #expect(isMet(StepUpDemand(maximumAge: 0), secondsAgo: 0, leeway: 0))
        let both = StepUpDemand(contextClasses: ["mfa"], maximumAge: 300)
        #expect(isMet(both) && !isMet(both, acr: "pwd") && !isMet(both, secondsAgo: 1000))
        #expect(isMet(StepUpDemand(), acr: nil, secondsAgo: nil))
        // A time outside of any calendar is ignored.
        #expect(SignInFacts(authenticatedAt: .max).authenticatedAt == nil)
        #expect(SignInFacts(authenticatedAt: -1).authenticatedAt == nil)
        #expect(SignInFacts(authenticatedAt: 0).authenticatedAt == nil)
    }

    @Test("A maximum age of zero is demanded → sent as one second, which every provider accepts")
    func parameters() {
        func ages(_ age: Int64?) -> [String] {
            StepUpDemand(maximumAge: age).parameters.map { "\($0.name)=\($0.value)" }
        }
        #expect(ages(0) == ["max_age=1"] && ages(1) == ["max_age=1"] && ages(300) == ["max_age=300"])
        #expect(ages(nil).isEmpty)
    }

    @Test(
        "A demand for `acr` values → valid if it has one to eight, each of 1 to 200 bytes that fit into a quoted text")
    func classes() {
        func text(_ count: Int) -> String { String(repeating: "c", count: count) }
        for classes in [
            [], [""], [text(201)], ["a", text(201)], Array(repeating: "a", count: 9), ["a b"], ["a\"b"], ["\\"], ["é"],
        ] {
            #expect(!StepUpDemand.areClasses(classes), "\(classes)")
        }
        for classes in [["a"], [text(200)], Array(repeating: "a", count: 8), ["urn:a/b#c"]] {
            #expect(StepUpDemand.areClasses(classes), "\(classes)")
        }
    }

    @Test(
        "The sign-in's part of a demand → everything except presence; the sign-in's part of a demand for presence alone → nil"
    )
    func ofSignIn() {
        let age = StepUpDemand(maximumAge: 300)
        #expect(age.ofSignIn == age && age.withPresence.ofSignIn == age)
        #expect(StepUpDemand.mfa.withPresence.ofSignIn == .mfa)
        #expect(StepUpDemand().ofSignIn == StepUpDemand())
        #expect(StepUpDemand.presence.ofSignIn == nil)
        // A demand for two different `acr` values is impossible, and must stay impossible if presence is added.
        let impossible = StepUpDemand.mfa.joined(with: StepUpDemand(contextClasses: ["phr"]))
        #expect(impossible.withPresence.ofSignIn == impossible && !impossible.isPossible)
    }

    @Test(
        "A client's configuration demands more than a call → a step-up must meet the stricter demand; a first sign-in, the call's"
    )
    func joining() throws {
        let session = try #require(Digest(Array(repeating: 7, count: 32)))
        let asked = SignInDemands([("acr_values", "pwd mfa"), ("max_age", "300")])
        func joined(_ demand: StepUpDemand, _ session: Digest?) -> StepUpDemand {
            LoginStepUp(demand: demand, session: session).joining(asked).demand
        }
        #expect(joined(StepUpDemand(), nil) == StepUpDemand())
        #expect(joined(StepUpDemand(), session) == StepUpDemand(contextClasses: ["pwd", "mfa"], maximumAge: 300))
        #expect(joined(.mfa, session) == StepUpDemand(contextClasses: ["mfa"], maximumAge: 300))
        #expect(
            joined(StepUpDemand(maximumAge: 60), session)
                == StepUpDemand(contextClasses: ["pwd", "mfa"], maximumAge: 60))
    }

    @Test(
        "A session gets nine refresh tokens during a step-up → the process remembers the first one and the newest seven"
    )
    func seen() {
        let seen = SeenRefreshTokens()
        for number in 1...9 { seen.note(Secret("rt-\(number)")) }
        seen.note(Secret("rt-9"))
        #expect((1...9).filter { seen.contains(Secret("rt-\($0)")) } == [1, 3, 4, 5, 6, 7, 8, 9])
        #expect(!seen.contains(nil))
    }

    @Test(
        "A refresh was in progress at a step-up's answer → until that refresh ends, an unknown refresh token may come from it"
    )
    func question() {
        let seen = SeenRefreshTokens()
        seen.note(Secret("rt-1"))
        #expect(seen.question(of: Secret("rt-2"), at: .zero) == nil)
        seen.note(SeenRefreshTokens.Question(version: 3, until: .seconds(30)))
        #expect(seen.question(of: Secret("rt-2"), at: .milliseconds(29_999))?.version == 3)
        #expect(seen.question(of: Secret("rt-2"), at: .seconds(30)) == nil)
        #expect(seen.question(of: Secret("rt-1"), at: .zero) == nil)
        #expect(seen.question(of: nil, at: .zero) == nil)
    }

    @Test(
        "A refresh has claimed a living session → a refresh token may come from it until 5 s after the end of its claim"
    )
    func mayBring() {
        func mayBring(_ rest: Duration?, isEnded: Bool = false) -> Duration? {
            RefreshState(tokenVersion: 1, claimRest: rest, isEnded: isEnded).mayBringFor
        }
        #expect(mayBring(.seconds(20)) == .seconds(25))
        #expect(mayBring(.zero) == .seconds(5))
        #expect(mayBring(.zero - RefreshMarks.grace + .milliseconds(1)) == .seconds(5))
        #expect(mayBring(.zero - RefreshMarks.grace) == nil)
        #expect(mayBring(nil) == nil)
        #expect(mayBring(.seconds(20), isEnded: true) == nil)
    }

    @Test("A kind of provider supports only demands for an `acr` → a demand that includes an age is impossible there")
    func capability() {
        let classOnly = StepUpCapability(contextClass: true, maximumAge: false)
        #expect(classOnly.canFulfil(StepUpDemand(contextClasses: ["mfa"])))
        #expect(!classOnly.canFulfil(StepUpDemand(contextClasses: ["mfa"], maximumAge: 1)))
        #expect(!StepUpCapability.nothing.canFulfil(StepUpDemand(maximumAge: 1)))
        #expect(StepUpCapability.everything.canFulfil(StepUpDemand(contextClasses: ["mfa"], maximumAge: 1)))
    }

    @Test(
        "A sign-in has only a time → recorded in the older format; it has an `acr`, too → the older format with added members"
    )
    func facts() throws {
        var facts = SessionFacts(
            provider: ProviderName(unchecked: "p"), client: ClientName(unchecked: "c"), subject: "s", identity: [],
            unverified: [], scope: ["openid"], device: nil, lifetimes: SessionLifetimes(),
            signIn: SignInFacts(authenticatedAt: 7))
        let plain = facts.record
        #expect(try SessionFacts(record: plain).signIn == SignInFacts(authenticatedAt: 7))
        facts.signIn = SignInFacts(contextClass: "mfa", methods: ["pwd", "otp"], authenticatedAt: 7)
        #expect(facts.record.starts(with: plain) && facts.record.count > plain.count)
        #expect(try SessionFacts(record: facts.record).signIn == facts.signIn)
        for length in plain.count + 1..<facts.record.count {
            #expect(throws: RecordFailure.self) { try SessionFacts(record: Array(facts.record.prefix(length))) }
        }
    }

    @Test(
        "A step-up's login → stored in a format that older releases refuse; a first sign-in with a demand → in the older format"
    )
    func login() throws {
        let session = try #require(Digest(Array(repeating: 7, count: 32)))
        var secrets = LoginSecrets(
            provider: ProviderName(unchecked: "p"), client: ClientName(unchecked: "c"), redirectURI: "a:/b",
            verifier: nil, appChallenge: nil, nonce: nil, scope: [],
            issuer: IssuerExpectation(issuer: nil, demanded: false),
            socialProvider: nil, demands: SignInDemands(), providerStarted: false, thumbprint: session)
        let demand = StepUpDemand(contextClasses: ["mfa"], maximumAge: 300)
        secrets.stepUp = LoginStepUp(demand: demand, session: session)
        #expect(secrets.record.first == 4)
        let read = try LoginSecrets(record: secrets.record)
        #expect(read.stepUp == secrets.stepUp && read.thumbprint == session)
        for length in 0..<secrets.record.count {
            _ = try? LoginSecrets(record: Array(secrets.record.prefix(length)))
        }
        // If the demand belongs to a first sign-in, the record keeps the older format 2.
        secrets.stepUp = LoginStepUp(demand: demand, session: nil)
        #expect(secrets.record.first == 2)
        #expect(try LoginSecrets(record: secrets.record).stepUp == secrets.stepUp)
    }

    @Test("A step-up brings only an access token → the certificate of this token is stored with it")
    func lending() {
        var tokens = TokenSet(credential: .mtls, accessToken: Secret("old"), refreshToken: Secret("r"))
        tokens.certificate = "first"
        var fresh = TokenSet(credential: .mtls, accessToken: Secret("new"))
        fresh.certificate = "second"
        let now = WallTime(seconds: 5)
        let stored = StoredTokens(
            provider: ProviderName(unchecked: "as"), client: ClientName(unchecked: "ios"), tokens: tokens,
            issuedAt: WallTime(seconds: 1)
        ).lending(fresh, issuedAt: now)
        #expect(stored.tokens.accessToken.reveal() == "new" && stored.tokens.certificate == "second")
        #expect(stored.tokens.refreshToken?.reveal() == "r" && stored.issuedAt == now)
    }
}
