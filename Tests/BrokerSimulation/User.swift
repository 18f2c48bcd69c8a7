import Broker

/// A person with an app: signs in, uses the session, hangs up, repeats, logs out.
struct User: Sendable {
    let world: Simulation

    private func pause(_ milliseconds: Int) async {
        let wake = Promise<Int>()
        world.scheduler.after(milliseconds) { wake.resolve(0) }
        _ = await wake.wait()
    }

    private func between(_ range: ClosedRange<Int>) -> Int { world.scheduler.random.number(range) }

    private func patience() -> Int {
        world.isFoul && world.scheduler.random.chance(world.weather.hangUps) ? between(200...28_000) : 40_000
    }

    func live() async {
        await pause(between(0...20_000))
        while world.isFoul {
            guard let ticket = await signIn() else {
                await pause(between(1_000...8_000))
                continue
            }
            await use(ticket)
        }
    }

    // MARK: Signing in

    private func signIn() async -> Ticket? {
        guard let input = await begin() else { return nil }
        var first: Ticket?
        var repeats = world.scheduler.random.chance(0.3) ? 1 : 0
        for _ in 0..<12 {
            let process = world.process()
            let answer = await process.serve(hangUpAfter: patience()) { try await $0.forwardCode.forward(input) }
            switch answer {
            case .success(.signedIn(let signedIn))?:
                let ticket = Ticket(token: signedIn.token, digest: world.vault.digest(signedIn.token))
                if let first {
                    if first.digest != ticket.digest {
                        world.say("FAULT: a repeated forward made another session")
                        world.verdict.answeredWritesLost += 1
                    }
                    return first
                }
                world.tickets.append(ticket)
                if repeats == 0 { return ticket }
                first = ticket
                repeats -= 1
            case .success(.registrationRequired)?: return first
            case .failure(let problem)?:
                switch problem.code {
                case .providerUnavailable, .storeUnavailable:
                    if problem.retry != nil, world.scheduler.random.chance(0.5) { return first }
                case .codeAlreadyUsed where first != nil:
                    world.say("FAULT: a repeated forward was refused")
                    world.verdict.answeredWritesLost += 1
                    return first
                default: return first
                }
            case nil: break
            }
            await pause(between(300...4_000))
        }
        return first
    }

    private func begin() async -> ForwardCodeInput? {
        var input = ForwardCodeInput()
        let (provider, client) = (ProviderName(unchecked: "as"), ClientName(unchecked: "app"))
        guard world.scheduler.random.chance(0.5) else {
            // Flow B: the app began it.
            input.provider = provider
            input.client = client
            input.code = Secret(world.authority.consent())
            input.codeVerifier = try? world.vault.randomToken()
            input.loginToken = try? world.vault.randomToken()
            return input
        }
        let answer = await world.process().serve(hangUpAfter: 40_000) {
            try await $0.startLogin.start(StartLoginInput(provider: provider, client: client))
        }
        guard case .success(let login)? = answer else { return nil }
        input.callbackURL =
            "com.example.app:/cb?code=\(world.authority.consent())&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        return input
    }

    // MARK: Using the session

    private func use(_ ticket: Ticket) async {
        while world.isFoul {
            await pause(between(world.weather.idleRange))
            if world.scheduler.random.chance(world.weather.logOuts) { return await logOut(ticket) }
            if world.scheduler.random.chance(world.weather.logOutsThere) { return await logOutThere(ticket) }
            if world.scheduler.random.chance(world.weather.revokedThere) { world.revoke(ticket) }
            let callers = world.scheduler.random.chance(0.2) ? between(2...4) : 1
            let forced = world.scheduler.random.chance(0.15)
            var ended = false
            if callers == 1 {
                ended = await token(ticket, forced: forced) == .ended
            } else {
                ended = await withTaskGroup(of: Seen.self) { group in
                    for _ in 0..<callers { group.addTask { await self.token(ticket, forced: forced) } }
                    return await group.reduce(false) { $0 || $1 == .ended }
                }
            }
            if ended { return }
        }
    }

    /// What an app sees of its session.
    enum Seen { case lives, ended, unknown }

    /// Asks for an access token, as relay and token exchange do.
    func token(_ ticket: Ticket, forced: Bool = false) async -> Seen {
        let process = world.process()
        let began = world.scheduler.now
        let answer = await process.serve(hangUpAfter: patience()) { useCases in
            let live = try await useCases.resumeSession.use(ticket.token)
            return forced
                ? try await useCases.refreshTokens.accessToken(for: live, newerThan: live.row.tokenVersion)
                : try await useCases.refreshTokens.accessToken(for: live)
        }
        switch answer {
        case .success(let token)?:
            world.handedOut(token, ticket, by: process, askedAt: began)
            return .lives
        case .failure(let problem)?:
            return problem.code == .sessionEnded || problem.code == .sessionRequired ? .ended : .unknown
        case nil: return .unknown
        }
    }

    /// Logs out at the provider, which sends its logout token again until the answer says that it was taken.
    private func logOutThere(_ ticket: Ticket) async {
        guard let token = world.logoutToken(ticket) else { return }
        for _ in 0..<30 {
            ticket.logOutSent = true
            let process = world.process()
            let answer = await process.serve(hangUpAfter: patience()) {
                try await $0.backchannelLogout.receive(provider: ProviderName(unchecked: "as"), token: token)
            }
            switch answer {
            case .success?:
                ticket.loggedOut = (world.scheduler.now, process)
                return
            // A repeat of what was taken before its answer was lost.
            case .failure(let problem)? where problem.code == .invalidRequest:
                ticket.loggedOut = (world.scheduler.now, process)
                return
            default: await pause(between(300...3_000))
            }
        }
    }

    private func logOut(_ ticket: Ticket) async {
        for _ in 0..<10 {
            ticket.logOutAsked = true
            let process = world.process()
            let answer = await process.serve(hangUpAfter: patience()) { try await $0.endSession.logOut(ticket.token) }
            if case .success? = answer {
                ticket.loggedOut = (world.scheduler.now, process)
                break
            }
            await pause(between(300...3_000))
        }
        // It is tried once more with the old token: refused, wherever that is.
        await pause(between(0...12_000))
        _ = await token(ticket)
    }
}
