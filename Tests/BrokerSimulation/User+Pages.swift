import Broker

/// A person whose app opens pages in a web view, each with a session of its own.
extension User {
    static let origin = "https://auth.example.com"

    /// Hands a session over to a page with ticket and secret, and tries the ticket with a wrong secret.
    func handOver(_ own: Ticket) async {
        guard let secret = try? world.vault.randomToken(), let other = try? world.vault.randomToken() else { return }
        let order = HandoverOrder(origin: Self.origin, path: "/", challenge: world.vault.digest(secret))
        let answer = await world.process().serve(hangUpAfter: Self.patience) { useCases in
            let live = try await useCases.resumeSession.resume(own.token)
            return try await useCases.handOver.begin(order, of: live)
        }
        guard case .success(let handover)? = answer,
            let text = handover.url.reveal().split(separator: "/").last.map(String.init)
        else { return }
        let (ticket, begun) = (Secret(text), world.scheduler.now)
        if world.scheduler.random.chance(0.3), await spend(ticket, other) != nil { world.toldStranger("a page") }
        if world.scheduler.random.chance(0.1) { await wait(world.scheduler.random.number(55_000...70_000)) }
        var page: Ticket?
        for _ in 0..<world.scheduler.random.number(1...3) {
            let asked = world.scheduler.now
            guard let child = await spend(ticket, secret) else {
                await wait(world.scheduler.random.number(100...2_000))
                continue
            }
            if asked > begun + 62_000, !world.weather.clocksStep { world.rules.fault("a ticket was spent too late") }
            let digest = world.vault.digest(child)
            if let page, page.digest != digest { world.rules.fault("a ticket made two pages") }
            guard page == nil else { continue }
            let made = Ticket(token: child, digest: digest, at: world.scheduler.now, parent: own, isPage: true)
            world.children.append(made)
            page = made
        }
        guard let page else { return }
        for _ in 0..<world.scheduler.random.number(0...2) {
            await wait(world.scheduler.random.number(100...4_000))
            guard await token(page) != .ended else { return }
        }
    }

    private func wait(_ milliseconds: Int) async {
        let wake = Promise<Int>()
        world.scheduler.after(milliseconds) { wake.resolve(0) }
        _ = await wake.wait()
    }

    /// Spends a ticket, and returns the token of the page's session.
    private func spend(_ ticket: Secret, _ secret: Secret) async -> Secret? {
        let answer = await world.process().serve(hangUpAfter: patience()) {
            try await $0.handOver.spend(ticket, verifier: secret, held: [])
        }
        guard case .success(let made)? = answer else { return nil }
        return made.child.token
    }
}
