import Broker
import BrokerTestSupport

/// A person whose app already has a session, which the broker takes over.
extension User {
    /// Whether the simulated provider has tokens that an app can get itself: bearer tokens.
    private var mayImport: Bool { weather.nonces == .unbound && !weather.isCertified && !weather.isOnePerson }

    /// Signs in, in some weather by an import or by a move from the old system.
    func begin() async -> Ticket? {
        if weather.imports > 0, mayImport, chance(weather.imports) { return await importTokens() }
        if weather.moving.moves > 0, mayImport, chance(weather.moving.moves) { return await moveIn() }
        return await signIn()
    }

    /// Notes that an earlier import of the client was granted, so that a refusal proves something from the beginning.
    func noteEarlierImport() async {
        let granted = world.vault.index(.importGrant, ["as", "app"])
        try? await world.memory.noteImportGrant(granted, at: WallTime(seconds: 0))
    }

    private func importTokens() async -> Ticket? {
        await noteEarlierImport()
        return await bring(world.authority.grantToApp())
    }

    /// Posts a refresh token that the app has.
    func bring(_ token: String) async -> Ticket? {
        let phone = newPhone()
        var input = ForwardCodeInput()
        input.tokens = ImportedTokens(accessToken: Secret("at"), refreshToken: Secret(token), merchantID: nil)
        return await bring(input, Mover(refreshToken: token), phone)
    }

    /// Posts an app's present session until the broker makes a session of it, or gives an answer for good.
    func bring(_ input: ForwardCodeInput, _ mover: Mover, _ phone: Phone?) async -> Ticket? {
        var input = input
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "app")
        input.loginToken = try? world.vault.randomToken()
        let post = input
        world.imports.begins(mover)
        var first: Ticket?
        var repeats = chance(0.3) ? 1 : 0
        while world.scheduler.now < weather.length + 120_000 {
            let hasTwin = mover.old != nil && chance(0.15)
            async let twin: Void = hasTwin ? postOnce(post, mover, phone) : ()
            let answer = await answer(post, phone)
            await twin
            switch answer {
            case .success(.signedIn(let signedIn))?:
                let ticket = Ticket(
                    token: signedIn.token, digest: world.vault.digest(signedIn.token), at: world.scheduler.now,
                    phone: phone)
                world.imports.moves(mover, to: ticket.digest)
                if let first { return first }
                // A session that the broker believed lacks provider tokens, so the app is done with it.
                guard mover.refreshToken != nil else {
                    if repeats > 0 { await postOnce(post, mover, phone) }
                    return nil
                }
                world.tickets.append(ticket)
                if repeats == 0 { return ticket }
                first = ticket
                repeats -= 1
            case .success?: break
            case .failure(let problem)?:
                if first != nil || mover.end == .moved {
                    // After a log-out at the old system, a question about the moved session is refused. It is asked only if
                    // the broker failed to write that the session was moved.
                    if problem.code == .loginRequired, mover.old?.isLoggedOut != true {
                        world.imports.wrongful("a repeated import was refused")
                    }
                    // If only the other post was answered so far, this one goes on.
                    if first != nil || problem.code == .loginRequired || problem.code == .codeAlreadyUsed {
                        return first
                    }
                    break
                }
                if await end(mover, problem) {
                    if mover.old != nil, chance(0.5) { await postOnce(post, mover, phone) }
                    return nil
                }
            case nil: break
            }
            await pause(between(300...4_000))
        }
        return first
    }

    private func answer(_ post: ForwardCodeInput, _ phone: Phone?) async -> Result<SignInOutcome, BrokerProblem>? {
        await world.process().serve(hangUpAfter: patience()) {
            try await $0.forwardCode.forward(post.shown(by: phone, at: $0))
        }
    }

    /// Posts an app's session one more time, at the same time as another post or after the end.
    private func postOnce(_ post: ForwardCodeInput, _ mover: Mover, _ phone: Phone?) async {
        guard case .success(.signedIn(let signedIn))? = await answer(post, phone) else { return }
        world.imports.moves(mover, to: world.vault.digest(signedIn.token))
    }

    /// Returns whether a refusal is the last answer to a post, and has it judged.
    private func end(_ mover: Mover, _ problem: BrokerProblem) async -> Bool {
        switch problem.code {
        case .providerUnavailable, .storeUnavailable, .providerError:
            if problem.retry != nil { world.imports.wrongful("a passing fault ends an import") }
            return false
        // The nonce grew too old while the post waited, so the app repeats the post with a new one.
        case .useDPoPNonce: return false
        case .loginRequired:
            if case .importFailed(let end) = problem.payload {
                await world.imports.refused(mover, end)
            } else {
                await world.imports.refused(mover, nil)
            }
        case .codeAlreadyUsed: world.imports.alreadyUsed(mover)
        case .identityRejected where mover.old?.namesAnother == true: mover.end = .mismatched
        case .clientNotAllowed where mover.old != nil: world.imports.closed(mover, problem)
        default:
            world.imports.wrongful("an import was refused with \(problem.code)")
            return false
        }
        return true
    }
}
