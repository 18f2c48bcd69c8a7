import Broker

/// One process's connection to the provider.
///
/// The faults of the run's weather affect its calls.
final class SimulatedProvider: CodeExchanging, TokenExchanging, TokenRevoking, LogoutTokenVerifying, CertificateShowing,
    @unchecked Sendable
{
    let process: SimulatedProcess
    let world: Simulation
    let profile: ProviderProfile
    /// The provider's nonces that this process has received.
    ///
    /// A crash loses them.
    private let nonces = ProofNonces()

    var scheduler: Scheduler { world.scheduler }
    var weather: Weather { world.weather }
    var authority: Authority { world.authority }

    static let issuer = "https://as.example"
    /// The full scope of a sign-in, if the provider names scopes.
    private static let scope = ["openid", "email", "orders", "invoices", "stock"]
    /// The longest time of a provider call, in milliseconds.
    private static let total = 15_000

    init(_ process: SimulatedProcess, _ world: Simulation) {
        self.process = process
        self.world = world
        var client = ClientProfile(
            name: ClientName(unchecked: "app"), login: .both,
            redirectURIs: [RedirectURI("com.example.app:/cb")].compactMap { $0 },
            lifetimes: world.weather.idleEnd.map { SessionLifetimes(idle: .milliseconds($0)) } ?? SessionLifetimes(),
            revocationReach: world.weather.reach)
        client.importTokens = true
        client.moveIn = MoveInPolicy(until: world.weather.moving.until, isBelieved: world.weather.moving.isBelieved)
        var page = ChildPolicy(lifetimes: client.lifetimes)
        page.origins = [User.origin, User.shop]
        if world.weather.presence > 0 { client.binding.mode = .enforce }
        client.children = [User.widget: ChildPolicy(lifetimes: client.lifetimes), .web: page]
        client.senderConstraint = world.weather.isCertified ? .mtls : world.weather.nonces == .unbound ? .off : .dpop
        profile = ProviderProfile(
            name: ProviderName(unchecked: "as"), kind: .oidc, displayName: "AS", issuer: Self.issuer,
            clients: [client], stepUp: .everything)
    }

    func startAuthorization(
        _ request: AuthorizationRequest, by deadline: Duration
    ) async throws(ProviderFailure) -> AuthorizationStart {
        authority.begin(request.state, key: request.proof?.thumbprint)
        return AuthorizationStart(url: Secret("https://as.example/authorize"), issuer: expectation)
    }

    func certificate(of client: ClientName) -> String? {
        weather.isCertified ? SimulatedProcess.name(ofCertificate: process.certificate) : nil
    }

    private var expectation: IssuerExpectation { IssuerExpectation(issuer: Self.issuer, demanded: false) }

    func issuerExpectation() async throws(ProviderFailure) -> IssuerExpectation { expectation }

    func redeem(_ grant: CodeGrant, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        let (code, shown) = (grant.code.reveal(), process.certificate)
        let (authority, verifier, now) = (authority, grant.verifier, world.wallTime)
        let scopes = weather.shrinks > 0
        let key = grant.proof?.thumbprint
        let (family, token) = try await proven(grant.proof, code: code) { (call) async throws(ProviderFailure) in
            call.verifier = verifier
            return try await tokenCall(call, by: deadline) { [self] () throws(ProviderFailure) in
                try checkAccepts(shown)
                guard authority.mayRedeem(code, key: key) else {
                    throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
                }
                let family = try authority.redeem(code, verifier: verifier)
                family.key = key
                if scopes { family.scopes[0] = Self.scope }
                family.signedInAt = now.milliseconds / 1000
                call.family = family
                return (family, 0)
            }
        }
        return tokens(family, token, grant.proof, by: shown)
    }

    /// Refuses the broker's client certificate if the provider does not accept it yet.
    private func checkAccepts(_ certificate: Int) throws(ProviderFailure) {
        guard weather.isCertified, certificate > authority.acceptedCertificate else { return }
        let code = weather.certificateRefusal
        throw .rejected(OAuthError(status: code == "invalid_client" ? 401 : 400, code: code))
    }

    /// Makes a call with a proof.
    ///
    /// If the provider asks for another nonce, repeats the call according to the broker's own rule.
    private func proven<Value>(
        _ proof: ProofMaker?, code: String? = nil, family: Family? = nil, repeating nonce: String? = nil,
        confirms: Bool = false, _ sending: RefreshSending? = nil,
        _ send: (TokenCall) async throws(ProviderFailure) -> Value
    ) async throws(ProviderFailure) -> Value {
        func newCall() -> TokenCall { TokenCall(process: process, code: code, family: family, sentAt: scheduler.now) }
        guard proof != nil else { return try await send(newCall()) }
        let place = ProofNonces.Place(
            provider: profile.name, client: ClientName(unchecked: "app"), origin: Self.issuer,
            role: .authorization)
        var exchange = NonceExchange(nonce: nonce ?? nonces.newest(at: place))
        var sendings = 0
        while true {
            sendings += 1
            world.rules.proves(sending: sendings)
            if exchange.isRepeated, !weather.checksFirst { sending?.markMayBeSpent() }
            sending?.markSending(nonce: exchange.sent, idempotencyKey: "")
            let call = newCall()
            call.nonce = exchange.sent
            call.isRepeat = sendings > 1
            authority.prove(call)
            let newestAtSending = nonces.newest(at: place)
            do throws(ProviderFailure) {
                let value = try await send(call)
                sending?.markAnswered()
                if let given = call.given { nonces.note(given, at: place, moment: process.monotonic) }
                return value
            } catch {
                let asks = if case .rejected(let refusal) = error { refusal.code == "use_dpop_nonce" } else { false }
                let heard = if case .rejected = error { call.given } else { String?.none }
                let newest = confirms ? newestAtSending : nonces.newest(at: place)
                if case .rejected = error { sending?.markAnswered() }
                if let heard { nonces.note(heard, at: place, moment: process.monotonic) }
                switch exchange.answered(asksForNonce: asks, nonce: heard, newest: newest) {
                case .take:
                    if case .notSent = error, exchange.isRepeated, sending != nil, !weather.checksFirst {
                        throw .lost(detail: "after a challenge")
                    }
                    guard case .rejected(var refusal) = error else { throw error }
                    refusal.isOfOldProof = exchange.isOutdated
                    throw .rejected(refusal)
                case .sendAgain: continue
                case .giveUp:
                    world.noteTrouble()
                    throw .retryable(status: 400, retryAfter: .seconds(1), detail: "nonce")
                }
            }
        }
    }

    /// Whether the provider issues nonces and refuses proofs without the newest nonce.
    private var givesNonces: Bool { weather.nonces == .kept || weather.nonces == .changing }

    /// Checks the nonce of a call that has reached the provider, before the provider does anything else, and issues the next
    /// nonce.
    private func check(_ call: TokenCall) throws(ProviderFailure) {
        guard givesNonces else { return }
        if world.isFoul, scheduler.random.chance(weather.forgets) { authority.forgetNonces() }
        let isGood = call.nonce == authority.newestNonce
        if weather.nonces == .changing { authority.forgetNonces() }
        call.given = authority.newestNonce
        guard isGood else {
            call.isChallenged = true
            throw .rejected(OAuthError(status: 400, code: "use_dpop_nonce"))
        }
    }

    func refresh(_ request: RefreshRequest, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        guard let (family, token) = authority.named(request.refreshToken.reveal()) else {
            throw .rejected(OAuthError(status: 400, code: "invalid_request"))
        }
        let last = request.recovering ? request.sending.last?.nonce : nil
        let shown = process.certificate
        let fresh = try await proven(
            request.proof, family: family, repeating: last, confirms: request.recovering, request.sending
        ) {
            (call) async throws(ProviderFailure) in
            try await refresh(request, family, token, call, by: deadline)
        }
        var tokens = tokens(fresh.0, fresh.1, request.proof, request.target, by: shown)
        if fresh.0.unbound.contains(fresh.1) {
            tokens.key = nil
            tokens.credential = .bearer
            if request.isBound { (tokens.accessToken, tokens.expiresAt) = (Secret(""), nil) }
        }
        return tokens
    }

    /// Sends a refresh token to the provider, in one call without retries.
    private func refresh(
        _ request: RefreshRequest, _ family: Family, _ token: Int, _ call: TokenCall, by deadline: Duration
    ) async throws(ProviderFailure) -> (Family, Int) {
        call.isConfirming = request.recovering
        call.token = token
        call.target = request.target
        authority.attempt(call)
        if let session = world.session(of: family) {
            world.rules.sends(session, by: process, deadline: deadline)
            world.rules.sends(call, of: session, authority.calls)
        }
        let target = request.target
        let (authority, idempotencyKey) = (authority, request.idempotencyKey)
        let (stranger, bearer) = (weather.subjectChanges, weather.answersBearer)
        let (key, certificate) = (request.proof?.thumbprint, process.certificate)
        return try await tokenCall(call, by: deadline) { [self] () throws(ProviderFailure) in
            try checkAccepts(certificate)
            guard family.key == key else {
                world.say("rt-\(family.number)-\(token) comes with another key")
                throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
            }
            if let target { try SimulatedTarget(target).check() }
            let (fresh, before): (Int, Int)
            before = family.current
            do throws(ProviderFailure) {
                fresh = try authority.refresh(family, token: token, key: idempotencyKey)
            } catch {
                world.say("rt-\(family.number)-\(token) is refused at the provider, whose own is \(family.current)")
                throw error
            }
            world.say("rt-\(family.number)-\(token) became \(fresh) at the provider")
            // Only a new answer may name another user, because the provider's repeated answer must name the same user as
            // before.
            if fresh > before, family.strangerFrom == nil, scheduler.random.chance(stranger) {
                family.strangerFrom = fresh
            }
            if fresh > before, scheduler.random.chance(bearer), world.isFoul {
                family.unbound.insert(fresh)
                world.noteTrouble()
            }
            if fresh > before, let scope = family.scopes[before] {
                let shrinks = target == nil && scope.count > 1 && scheduler.random.chance(world.weather.shrinks)
                family.scopes[fresh] = shrinks ? Array(scope.dropLast()) : scope
            }
            return (family, fresh)
        }
    }

    func exchange(_ request: TargetExchange, by deadline: Duration) async throws(ProviderFailure) -> TokenSet {
        guard let (family, token) = authority.named(request.subjectToken.reveal()) else {
            throw .rejected(OAuthError(status: 400, code: "invalid_request"))
        }
        let shown = process.certificate
        _ = try await proven(request.proof, family: family) { (call) async throws(ProviderFailure) in
            call.target = request.target
            call.isExchange = true
            if let session = world.session(of: family) {
                world.rules.sends(session, by: process, deadline: deadline)
                world.rules.sends(call, of: session, authority.calls)
            }
            return try await tokenCall(call, by: deadline) { [self] () throws(ProviderFailure) in
                try checkAccepts(shown)
                try SimulatedTarget(request.target).check()
                guard family.death == nil else { throw .rejected(OAuthError(status: 400, code: "invalid_grant")) }
                return (family, token)
            }
        }
        var tokens = tokens(family, token, request.proof, request.target, by: shown)
        tokens.idToken = nil
        return tokens
    }

    func identify(
        _ tokens: TokenSet, _ context: IdentityContext, by deadline: Duration
    ) async throws(ProviderFailure) -> ProviderIdentity {
        let family = authority.named(tokens.accessToken.reveal())?.family
        let answer = process.promise(Result<Int, ProviderFailure>.failure(.lost(detail: "the process died")))
        let duration = duration()
        let fails = world.isFoul && scheduler.random.chance(weather.identityFails)
        let rest = rest(until: deadline)
        scheduler.after(min(duration, rest)) {
            if fails || duration >= rest {
                family?.identityFailed = true
                answer.resolve(.failure(.lost(detail: "identity")))
            } else {
                answer.resolve(.success(0))
            }
        }
        _ = try await answer.wait().get()
        return ProviderIdentity(
            subject: "user-\(family?.person ?? -1)",
            signIn: SignInFacts(
                contextClass: family?.isWeak == true ? "pwd" : "mfa", authenticatedAt: family?.signedInAt))
    }

    func subjectOfRefreshed(
        _ tokens: TokenSet, before: TokenSet, client: ClientName
    ) async throws(ProviderFailure) -> RefreshedSubject {
        guard let idToken = tokens.idToken, let (family, token) = authority.named(idToken.reveal()) else {
            return .absent
        }
        if weather.slowKeys > 0 {
            world.noteTrouble()
            let answer = process.promise(Result<Int, ProviderFailure>.failure(.lost(detail: "the process died")))
            scheduler.after(world.isFoul ? weather.slowKeys : 0) { answer.resolve(.success(0)) }
            _ = try await answer.wait().get()
        }
        if let from = family.strangerFrom, token >= from { return .subject("stranger") }
        return .subject("user-\(family.person)")
    }

    func revoke(_ tokens: TokenSet, client: ClientName, by deadline: Duration) async throws(ProviderFailure) {
        guard let (family, _) = tokens.refreshToken.flatMap({ self.authority.named($0.reveal()) }) else { return }
        let answer = process.promise(Result<Int, ProviderFailure>.failure(.lost(detail: "the process died")))
        let fails = world.isFoul && scheduler.random.chance(weather.retryable)
        let (world, authority, reach) = (world, authority, weather.reach)
        scheduler.after(scheduler.random.number(1...300)) {
            if fails { return answer.resolve(.failure(.retryable(status: 503, retryAfter: nil, detail: ""))) }
            authority.revoke(family, reach) { world.session(of: $0) != nil }
            answer.resolve(.success(0))
        }
        _ = try await answer.wait().get()
    }

    func verifyLogoutToken(
        _ token: Secret, mayFetchKeys: @escaping @Sendable () -> Bool
    ) async throws(ProviderFailure) -> LogoutNotice {
        let parts = token.reveal().split(separator: "/")
        guard parts.count == 3 else { throw .identityRejected(detail: "no logout token") }
        return LogoutNotice(
            subject: "user-\(parts[1])", sid: nil, clients: profile.clients.map(\.name), tokenID: token.reveal(),
            rememberUntil: process.wallTime.advanced(by: .seconds(600)))
    }

    func tokens(
        _ family: Family, _ token: Int, _ proof: ProofMaker?, _ target: TokenTarget? = nil, by certificate: Int
    ) -> TokenSet {
        let suffix = target.map { "@" + SimulatedTarget($0).name } ?? ""
        var tokens = TokenSet(
            credential: proof == nil ? .bearer : .dpop,
            accessToken: Secret("at-\(family.number)-\(token)\(suffix)"),
            refreshToken: Secret("rt-\(family.number)-\(token)"),
            idToken: Secret("id-\(family.number)-\(token)"),
            expiresAt: process.wallTime.advanced(by: .seconds(weather.accessTokenLife)))
        tokens.key = proof.map { TokenKey(pair: $0.key, usesNonces: givesNonces) }
        if weather.isCertified { tokens.certificate = SimulatedProcess.name(ofCertificate: certificate) }
        if target == nil { tokens.scope = family.scopes[token] }
        if family.hasNoRefreshToken { tokens.refreshToken = family.repeated.map { Secret($0) } }
        return tokens
    }

    /// Returns the time until a call's deadline, in milliseconds.
    func rest(until deadline: Duration) -> Int {
        min(Self.total, max(0, Int((deadline - process.monotonic).wholeMilliseconds)))
    }

    func duration() -> Int {
        world.isFoul && scheduler.random.chance(weather.slow)
            ? scheduler.random.number(weather.slowRange) : scheduler.random.number(5...400)
    }

    /// Makes a call that spends a code or a refresh token.
    ///
    /// If the call reaches the provider, `work` is done there.
    private func tokenCall(
        _ call: TokenCall, by deadline: Duration, _ work: @escaping () throws(ProviderFailure) -> (Family, Int)
    ) async throws(ProviderFailure) -> (Family, Int) {
        typealias Answer = Result<Int, ProviderFailure>
        guard !process.isDead else { throw .notSent(detail: "the process died") }
        let rest = rest(until: deadline)
        guard rest > 0 else {
            call.state = .failed
            throw .notSent(detail: "no time is left")
        }
        let foul = world.isFoul
        func strikes(_ chance: Double) -> Bool { foul && scheduler.random.chance(chance) }
        if strikes(weather.notSent) {
            call.state = .failed
            world.noteTrouble()
            throw .notSent(detail: "no connection")
        }
        world.rules.isAlone(call, self.authority.calls)
        defer { if world.scheduler.now > call.sentAt + 1_000 { world.noteTrouble() } }
        self.authority.send(call)
        let answer = process.promise(Answer.failure(.lost(detail: "the process died")))
        let isLate = call.code == nil && strikes(weather.late)
        let way: Int
        let duration: Int
        if isLate {
            way = scheduler.random.number(weather.lateRange)
            duration = way + scheduler.random.number(5...400)
        } else {
            duration = self.duration()
            way = scheduler.random.number(0...duration)
        }
        if duration > 1_000 { world.noteTrouble() }
        let (process, world, authority) = (process, world, authority)
        /// Returns whether an answer refuses only the call's target, so that the grant stays alive.
        func isOfTarget(_ said: Answer) -> Bool {
            guard let target = call.target, case .failure(.rejected) = said else { return false }
            return SimulatedTarget(target).isRefused && world.weather.refusedClient == 0
        }
        /// Gives the provider's answer to the process, unless the process is dead or has stopped waiting.
        func tell(_ said: Answer, token: Int? = nil) {
            if answer.value != nil || process.isDead {
                if token != nil, !call.isExchange { call.note(.answerLost) }
                return
            }
            if let token { call.state = .delivered(token) } else { call.state = .failed }
            if token == nil, !call.isChallenged, !isOfTarget(said) { world.noteTrouble() }
            answer.resolve(said)
        }
        if world.answersEmpty {
            scheduler.after(duration) { tell(.failure(.rejected(OAuthError(status: 401, code: "")))) }
        } else if strikes(weather.retryable) {
            scheduler.after(duration) {
                call.mayBeRepeated = answer.value == nil
                tell(.failure(.retryable(status: 503, retryAfter: nil, detail: "503")))
            }
        } else if strikes(weather.refusedClient), call.code == nil {
            scheduler.after(duration) { tell(.failure(.rejected(OAuthError(status: 401, code: "invalid_client")))) }
        } else if strikes(weather.lostBefore) {
            scheduler.after(duration) {
                if answer.value == nil, !process.isDead, call.code == nil, !call.isExchange, !call.isConfirming,
                    rest - duration > 8_000
                {
                    world.rules.lost(call, token: call.token) { authority.hasConfirmed(call) }
                }
                tell(.failure(.lost(detail: "broken off")))
            }
        } else {
            let loses = strikes(weather.lostAfter)
            scheduler.after(way) { [self, scheduler] in
                // The process had already given up this call when it reached the provider. If the call's token was rotated more
                // than once meanwhile, the broker has forgotten this call.
                if answer.value != nil, call.code == nil, !call.isExchange, let family = call.family {
                    call.note(.answerLost)
                    if family.death == nil, family.current > call.token + 1 { family.isReusedUnremembered = true }
                }
                let done: Answer
                var token: Int?
                do throws(ProviderFailure) {
                    try check(call)
                    let fresh = try work().1
                    done = .success(fresh)
                    token = fresh
                } catch { done = .failure(error) }
                if loses, token != nil, !call.isExchange { call.note(.answerLost) }
                scheduler.after(duration - way) {
                    // The provider refused the call's nonce and did nothing else, so the code may be sent again.
                    if call.isChallenged { call.mayBeRepeated = answer.value == nil }
                    if call.isChallenged, !call.isRepeat, !loses, answer.value == nil, !process.isDead {
                        world.rules.challenged(call) { authority.hasRepeated(call) }
                    }
                    if loses { tell(.failure(.lost(detail: "broken off"))) } else { tell(done, token: token) }
                }
            }
        }
        scheduler.after(rest) {
            // If the process is paused, it notices only afterwards that the call's time has ended. An answer may have arrived
            // meanwhile.
            process.whenAwake {
                guard answer.value == nil, !process.isDead else { return }
                call.state = .failed
                answer.resolve(.failure(.lost(detail: "no whole answer in time")))
            }
        }
        let token = try await answer.wait().get()
        guard let family = call.family else { throw .lost(detail: "no family") }
        return (family, token)
    }
}
