import Broker
import BrokerTestSupport

/// A person whose app already has a refresh token, which the broker imports.
extension User {
    /// Whether the simulated provider has tokens that an app can get itself: bearer tokens.
    private var mayImport: Bool { weather.nonces == .unbound && !weather.isCertified && !weather.isOnePerson }

    /// Signs in, in some weather by an import.
    func begin() async -> Ticket? {
        guard weather.imports > 0, mayImport, chance(weather.imports) else { return await signIn() }
        return await importTokens()
    }

    /// Posts the app's token until the broker makes a session, or says that the user has to sign in.
    private func importTokens() async -> Ticket? {
        // An earlier import of the client was granted, so a refusal proves something from the beginning.
        let granted = world.vault.index(.importGrant, ["as", "app"])
        try? await world.memory.noteImportGrant(granted, at: WallTime(seconds: 0))
        let token = world.authority.grantToApp()
        let phone = newPhone()
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "as")
        input.client = ClientName(unchecked: "app")
        input.tokens = ImportedTokens(accessToken: Secret("at"), refreshToken: Secret(token), merchantID: nil)
        input.loginToken = try? world.vault.randomToken()
        let post = input
        world.imports.begins(token)
        var first: Ticket?
        var repeats = chance(0.3) ? 1 : 0
        while world.scheduler.now < weather.length + 120_000 {
            let answer = await world.process().serve(hangUpAfter: patience()) {
                try await $0.forwardCode.forward(post.shown(by: phone, at: $0))
            }
            switch answer {
            case .success(.signedIn(let signedIn))?:
                let ticket = Ticket(
                    token: signedIn.token, digest: world.vault.digest(signedIn.token), at: world.scheduler.now,
                    phone: phone)
                world.imports.ends(token)
                if let first {
                    if first.digest != ticket.digest {
                        world.imports.wrongful("a repeated import made another session")
                    }
                    return first
                }
                world.tickets.append(ticket)
                if repeats == 0 { return ticket }
                first = ticket
                repeats -= 1
            case .success?: break
            case .failure(let problem)?:
                if let first {
                    if problem.code == .loginRequired { world.imports.wrongful("a repeated import was refused") }
                    return first
                }
                switch problem.code {
                case .providerUnavailable, .storeUnavailable, .providerError:
                    if problem.retry != nil { world.imports.wrongful("a passing fault ends an import") }
                case .loginRequired:
                    world.imports.ends(token)
                    if case .importFailed(let end) = problem.payload {
                        world.imports.refused(token, end)
                    } else {
                        world.imports.refused(token, nil)
                    }
                    return nil
                case .codeAlreadyUsed:
                    world.imports.ends(token)
                    world.imports.alreadyUsed(token)
                    return nil
                default: world.imports.wrongful("an import was refused with \(problem.code)")
                }
            case nil: break
            }
            await pause(between(300...4_000))
        }
        return first
    }
}
