import Broker

/// A person with an app, who signs in, uses the session, hangs up, repeats calls and logs out.
struct User: Sendable {
    /// The longest time that the broker may take for an answer, in milliseconds.
    static let patience = 60_000

    let world: Simulation

    var weather: Weather { world.weather }

    func chance(_ probability: Double) -> Bool { world.scheduler.random.chance(probability) }

    func pause(_ milliseconds: Int) async {
        let wake = Promise<Int>()
        world.scheduler.after(milliseconds) { wake.resolve(0) }
        _ = await wake.wait()
    }

    func between(_ range: ClosedRange<Int>) -> Int { world.scheduler.random.number(range) }

    /// Waits for a random number of milliseconds in the range.
    func wait(_ range: ClosedRange<Int>) async { await pause(between(range)) }

    func patience() -> Int {
        world.isFoul && world.scheduler.random.chance(world.weather.hangUps) ? between(200...28_000) : Self.patience
    }

    func live() async {
        await pause(between(0...20_000))
        while world.isFoul {
            guard let ticket = await begin() else {
                await pause(between(1_000...8_000))
                continue
            }
            await use(ticket)
        }
    }

    // MARK: Using the session

    private func use(_ own: Ticket) async {
        let listener = listen(own)
        if own.phone != nil { await registerPresence(own) }
        var widget = chance(weather.children) ? await makeChild(own) : nil
        let listening = widget.flatMap { listen($0) }
        defer {
            listener?.leave()
            listening?.leave()
        }
        while world.isFoul {
            await pause(between(world.weather.idleRange))
            if weather.idleEnd != nil, !weather.clocksComeBack, chance(0.2) { await slideLate(own) }
            if world.scheduler.random.chance(world.weather.logOuts) { return await logOut(own) }
            if world.scheduler.random.chance(world.weather.logOutsThere) { return await logOutThere(own) }
            if world.scheduler.random.chance(world.weather.revokedThere) { world.revoke(own) }
            if weather.stepUps > 0, chance(weather.stepUps), await stepUpBeside(own, widget) == .ended { return }
            if chance(weather.replacements), let old = widget {
                widget = await makeChild(own, inPlaceOf: old) ?? old
                if chance(0.5), await token(old) == .ended, widget === old { widget = nil }
            }
            if chance(weather.pages) { await handOver(own) }
            if chance(weather.presence), await confirm(own) == .ended { return }
            if weather.targets > 0, chance(weather.targets), await askBeside(own, widget) == .ended { return }
            let callers = world.scheduler.random.chance(0.2) ? between(2...4) : 1
            let forced = chance(weather.forced)
            var ended = false
            if callers == 1 {
                let ticket = chance(0.5) ? widget ?? own : own
                ended = await token(ticket, forced: forced) == .ended
            } else {
                ended = await withTaskGroup(of: Seen.self) { group in
                    for number in 0..<callers {
                        let ticket = number % 2 == 0 ? own : widget ?? own
                        group.addTask { await self.token(ticket, forced: forced) }
                    }
                    return await group.reduce(false) { $0 || $1 == .ended }
                }
            }
            if ended { return }
        }
    }

    /// The state of the session, as the app knows it from the broker's answers.
    enum Seen { case lives, ended, unknown }

    /// Asks for an access token, as the relay and token exchange do for a caller.
    func token(_ ticket: Ticket, forced: Bool = false) async -> Seen {
        await token(ticket, forced: forced, of: world.process())
    }

    /// Asks a process for an access token.
    private func token(_ ticket: Ticket, forced: Bool = false, of process: SimulatedProcess) async -> Seen {
        let (world, began) = (world, world.scheduler.now)
        let answer = await process.serve(hangUpAfter: patience()) { useCases in
            let live = try await useCases.resumeSession.use(ticket.token, { ticket.evidence(at: useCases) })
            world.used(ticket, askedAt: began)
            let holder = live.tokenHolder
            world.rules.served(holder.row, by: process, askedAt: began)
            let leave = world.rules.waits(process, holder.tokenDigest)
            defer { leave() }
            guard forced else { return try await useCases.refreshTokens.accessToken(for: live) }
            let refused = try await useCases.refreshTokens.accessToken(for: live)
            let version = refused.version
            world.rules.wants(newerThan: version, of: holder.tokenDigest)
            let token = try await useCases.refreshTokens.accessToken(for: live, insteadOf: refused)
            if token.version <= version { world.rules.notNewer(version) }
            return token
        }
        switch answer {
        case .success(let token)?:
            world.handedOut(token, ticket, by: process, askedAt: began)
            return .lives
        case .failure(let problem)? where problem.code == .sessionEnded || problem.code == .sessionRequired:
            await world.toldOfEnd(ticket)
            return .ended
        case .failure(let problem)?:
            world.rules.withheld(problem, of: ticket, askedAt: began)
            return .unknown
        case nil: return .unknown
        }
    }

    /// Listens to a session's events at one process.
    private func listen(_ ticket: Ticket) -> SessionListener? {
        guard chance(weather.listeners) else { return nil }
        let listener = SessionListener(world.process(), ticket.digest, childOf: ticket.parent?.digest)
        world.listen(listener)
        return listener
    }

    static let widget = ChildKind(unchecked: "widget")

    /// Makes a child of a session, and retries after a lost answer; returns nil if the broker refuses the child.
    ///
    /// If `old` is given, the new child replaces it.
    private func makeChild(_ parent: Ticket, inPlaceOf old: Ticket? = nil) async -> Ticket? {
        let phone = parent.phone == nil ? nil : newPhone()
        for _ in 0..<6 {
            let process = world.process()
            let answer = await process.serve(hangUpAfter: patience()) { useCases in
                let live = try await useCases.resumeSession.resume(
                    parent.token, { parent.evidence(at: useCases) }, .proof)
                let order = ChildOrder(kind: Self.widget, name: "home", thumbprint: phone?.own.thumbprint)
                return try await useCases.makeChild.make(order, of: live)
            }
            switch answer {
            case .success(let made)?:
                let ticket = Ticket(
                    token: made.token, digest: world.vault.digest(made.token), at: world.scheduler.now, parent: parent,
                    phone: phone)
                world.children.append(ticket)
                old?.replaced = (world.scheduler.now, process)
                return ticket
            case .failure(let problem)? where problem.code == .sessionEnded || problem.code == .sessionRequired:
                await world.toldOfEnd(parent)
                return nil
            default: await pause(between(300...3_000))
            }
        }
        return nil
    }

    /// Looks a session up, and stores this use of the session only much later.
    private func slideLate(_ ticket: Ticket) async {
        let process = world.process()
        let found = await process.serve(hangUpAfter: Self.patience) { useCases in
            try await useCases.resumeSession.resume(ticket.token, { ticket.evidence(at: useCases) })
        }
        guard case .success(let live)? = found else { return }
        await pause(between(1_000...40_000))
        let world = world
        _ = await process.serve(hangUpAfter: Self.patience) { useCases in
            useCases.resumeSession.slide(live)
            if live.row.isLive(at: world.wallTime) { world.used(ticket, askedAt: world.scheduler.now) }
        }
    }

    /// Asks each process for an access token, all at the same time.
    private func probe(_ ticket: Ticket) async {
        await withTaskGroup(of: Void.self) { group in
            for process in world.all { group.addTask { _ = await token(ticket, of: process) } }
        }
    }

    /// Logs out at the provider.
    ///
    /// The provider sends its logout token again until the broker has confirmed it.
    private func logOutThere(_ ticket: Ticket) async {
        guard let token = world.logoutToken(ticket) else { return }
        for _ in 0..<30 {
            let process = world.process()
            let answer = await process.serve(hangUpAfter: patience()) {
                try await $0.backchannelLogout.receive(provider: ProviderName(unchecked: "as"), token: token)
            }
            switch answer {
            case .success?:
                ticket.loggedOut = (world.scheduler.now, process)
                return
            // The broker has accepted this logout token before, but the broker's answer was lost.
            case .failure(let problem)? where problem.code == .invalidRequest:
                ticket.loggedOut = (world.scheduler.now, process)
                return
            default: await pause(between(300...3_000))
            }
        }
    }

    private func logOut(_ ticket: Ticket) async {
        let probes = chance(weather.probes)
        if probes { await probe(ticket) }
        let handover = chance(weather.pages) ? await begin(of: ticket) : nil
        async let opened: Void = redeemAtEnd(handover)
        for _ in 0..<10 {
            ticket.logOutAsked = true
            let process = world.process()
            // While the session is logged out, another call of the same app may still be in progress.
            let isBeside = probes && chance(0.5)
            async let beside = isBeside ? token(ticket, of: process) : .unknown
            let answer = await process.serve(hangUpAfter: patience()) { try await $0.endSession.logOut(ticket.token) }
            if case .success? = answer {
                ticket.loggedOut = (world.scheduler.now, process)
                _ = await beside
                if probes { _ = await token(ticket, of: process) }
                break
            }
            _ = await beside
            await pause(between(300...3_000))
        }
        for _ in 0..<(probes ? 6 : 0) {
            await pause(between(200...1_200))
            await probe(ticket)
        }
        await opened
        await redeemAtEnd(handover)
        // Use the old session token once more. Every process has to refuse it.
        await pause(between(0...12_000))
        _ = await token(ticket)
    }
}
