import Broker

/// A person whose app opens web pages in a web view.
///
/// Each page has a session of its own.
extension User {
    /// The origin of the broker's own pages (`origin`), and the origin of a backend's pages (`shop`).
    static let origin = SimulatedProcess.publicURL
    static let shop = "https://shop.example.com"

    /// Hands a session over to a page, while programs without the ticket's secret try to redeem the ticket.
    func handOver(_ own: Ticket) async {
        guard let ticket = await begin(of: own) else { return }
        if chance(0.4) {
            for _ in 0...between(0...1) { await scan(ticket) }
            world.rules.scanned(ticket)
        }
        if chance(0.1) { await wait(55_000...70_000) }
        if chance(0.15) { await redeemAsAnother(ticket) }
        if chance(0.3) {
            // The web view sends the same request twice, to different replicas.
            async let scanned: Void = scan(ticket)
            async let twin: Void = redeem(ticket)
            await redeem(ticket)
            _ = await (twin, scanned)
        }
        for _ in 0..<between(1...4) {
            if ticket.page != nil, !chance(0.4) { break }
            await redeem(ticket)
            if ticket.page == nil { await wait(100...2_000) }
        }
        guard let page = ticket.page else { return }
        for _ in 0..<between(0...2) {
            await wait(100...4_000)
            guard await token(page) != .ended else { return }
        }
    }

    /// Gets a ticket, either for one of the broker's own pages or for a page of a backend.
    func begin(of own: Ticket) async -> HandoverTicket? {
        guard let secret = try? world.vault.randomToken() else { return nil }
        let isBackends = chance(0.3)
        let order = HandoverOrder(
            origin: isBackends ? Self.shop : Self.origin, path: "/", challenge: world.vault.digest(secret))
        let answer = await world.process().serve(hangUpAfter: Self.patience) { useCases in
            let live = try await useCases.resumeSession.resume(own.token, { own.evidence(at: useCases) })
            return try await useCases.handOver.begin(order, of: live)
        }
        guard case .success(let handover)? = answer else { return nil }
        return HandoverTicket(handover, secret: secret, of: own, isBackends: isBackends, world.vault)
    }

    /// Opens the ticket's address with a wrong secret or without a secret, as a link scanner or a thief does.
    private func scan(_ ticket: HandoverTicket) async {
        let random = try? world.vault.randomToken()
        let other = chance(0.3) ? nil : random
        if chance(0.3) {
            _ = await world.process().serve(hangUpAfter: Self.patience) { try await $0.handOver.look(ticket.text) }
        }
        if case .success? = await spend(ticket, other, held: [], at: world.process()) { world.toldStranger("a page") }
        // The ticket and its right secret are sent to the wrong recipient, which is another backend or the broker's own page.
        let isHere = ticket.isBackends && chance(0.5)
        let answer = await world.process().serve(hangUpAfter: Self.patience) { useCases in
            if isHere { return try await useCases.handOver.spend(ticket.text, verifier: ticket.secret, held: []) }
            return try await useCases.handOver.redeem(
                ticket.text, verifier: ticket.secret, isOwn: { !ticket.isBackends && $0 == Self.shop },
                admits: { _ in })
        }
        if case .success? = answer { world.toldStranger("a page of another origin") }
    }

    /// Opens the ticket's address in a browser that has another user's session.
    ///
    /// The broker must not end the other user's session.
    private func redeemAsAnother(_ ticket: HandoverTicket) async {
        let person = world.person(of: ticket.parent)
        let others = world.tickets.filter { world.person(of: $0) != person }
        guard !ticket.isBackends, !others.isEmpty else { return }
        let other = world.scheduler.random.pick(others)
        let answer = await spend(ticket, ticket.secret, held: [other.token], at: world.process())
        guard !world.weather.clocksStep, await !world.hasEnded(other.digest) else { return }
        if case .success? = answer { world.rules.fault("a page replaced another user's living session") }
        world.rules.scanned(ticket)
    }

    /// Redeems the ticket, so that the page gets a session.
    ///
    /// In most cases, the browser still has the session of an earlier page. The new page's session replaces this session.
    func redeem(_ ticket: HandoverTicket) async {
        let (process, asked) = (world.process(), world.scheduler.now)
        let older = ticket.isBackends || !chance(0.6) ? nil : ticket.parent.page
        let held = older.map { [$0.token] } ?? []
        let answer = await spend(ticket, ticket.secret, held: held, at: process)
        switch answer {
        case .success(let child)?:
            let digest = world.vault.digest(child)
            world.rules.redeemed(ticket, as: digest, by: process, askedAt: asked)
            if let older, older.digest != digest, older.replaced == nil {
                older.replaced = (world.scheduler.now, process)
            }
            guard ticket.page == nil else { return }
            let page = Ticket(token: child, digest: digest, at: asked, parent: ticket.parent, isPage: true)
            world.children.append(page)
            ticket.page = page
            if !ticket.isBackends { ticket.parent.page = page }
        case .failure(let problem)?: await world.rules.refused(ticket, problem, askedAt: asked)
        case nil: break
        }
    }

    /// Redeems a ticket while its session is logged out, and afterwards.
    func redeemAtEnd(_ ticket: HandoverTicket?) async {
        guard let ticket else { return }
        for _ in 0..<between(1...3) {
            await wait(0...3_000)
            await redeem(ticket)
        }
    }

    /// Sends a ticket with a secret to a process; returns the session token of the page.
    private func spend(
        _ ticket: HandoverTicket, _ secret: Secret?, held: [Secret], at process: SimulatedProcess
    ) async -> Result<Secret, BrokerProblem>? {
        await process.serve(hangUpAfter: patience()) { useCases in
            guard ticket.isBackends else {
                return try await useCases.handOver.spend(ticket.text, verifier: secret, held: held).child.token
            }
            return try await useCases.handOver.redeem(
                ticket.text, verifier: secret ?? Secret(""), isOwn: { $0 == Self.shop }, admits: { _ in }
            ).child.token
        }
    }
}
