import Broker

/// A person who has a session at the old system, which the app moves to the broker.
extension User {
    func moveIn() async -> Ticket? {
        await noteEarlierImport()
        let moving = weather.moving
        let grant = world.authority.grantToApp()
        // The refresh token may come by both ways only if the move itself can succeed.
        guard !chance(moving.bothWays) else { return await moveByBothWays(grant) }
        let session = world.moves.begin(
            grant, lacksToken: chance(moving.lacksToken), namesAnother: chance(moving.strangers))
        if chance(moving.logOuts) { logOutOld(session) }
        return await bring(session)
    }

    /// Logs out at the old system, at once or while the app moves.
    private func logOutOld(_ session: OldSession) {
        guard chance(0.5) else { return session.logOut() }
        world.scheduler.after(between(0...12_000)) { [world] in
            world.say("\(session.token) is logged out at the old system")
            session.logOut()
        }
    }

    /// Moves a session whose refresh token another app brings at the same time.
    private func moveByBothWays(_ grant: String) async -> Ticket? {
        let first = world.moves.begin(grant)
        let second = chance(0.5) ? world.moves.begin(grant) : nil
        let waits = between(0...6_000)
        async let others: Ticket? = bringToo(grant, second, after: waits)
        let own = await bring(first)
        let other = await others
        return own ?? other
    }

    /// Brings a refresh token that another app brings too, by another old session or as `tokens`.
    private func bringToo(_ grant: String, _ session: OldSession?, after delay: Int) async -> Ticket? {
        await pause(delay)
        if let session { return await bring(session) }
        return await bring(grant)
    }

    /// Posts the token of a session at the old system.
    private func bring(_ session: OldSession) async -> Ticket? {
        var input = ForwardCodeInput()
        input.legacy = LegacyToken(Secret(session.token))
        let mover = Mover(refreshToken: session.refreshToken, old: session)
        let ticket = await bring(input, mover, newPhone())
        guard mover.end == .moved || mover.end == .refused else { return ticket }
        if chance(weather.strangers) { await postAsStranger(session) }
        return ticket
    }

    /// Posts the token of another person's session, which the broker has to refuse.
    private func postAsStranger(_ session: OldSession) async {
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "app")
        input.legacy = LegacyToken(Secret(session.token))
        input.loginToken = try? world.vault.randomToken()
        let (post, phone) = (input, newPhone())
        let answer = await world.process().serve(hangUpAfter: Self.patience) {
            try await $0.forwardCode.forward(post.shown(by: phone, at: $0))
        }
        if case .success? = answer { world.toldStranger("a session for the token of an old session") }
    }
}
