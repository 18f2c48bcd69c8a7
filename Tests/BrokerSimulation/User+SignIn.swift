import Broker

/// A person who signs in with flow A or B.
///
/// The app sometimes forwards the callback more than once.
extension User {
    func signIn() async -> Ticket? {
        let code = world.authority.consent(weather.isOnePerson ? 1 : nil)
        let phone = newPhone()
        guard let input = await begin(code, phone) else { return nil }
        let ticket = await forward(input, code, phone)
        if chance(weather.strangers), world.isFoul { await forwardAsStranger(input) }
        return ticket
    }

    /// Forwards the callback.
    ///
    /// Retries if the answer allows a retry, or if the app hung up.
    private func forward(_ input: ForwardCodeInput, _ code: String, _ phone: Phone?) async -> Ticket? {
        var first: Ticket?
        var repeats = world.scheduler.random.chance(0.3) ? 1 : 0
        for _ in 0..<12 {
            let process = world.process()
            let answer = await process.serve(hangUpAfter: patience()) {
                try await $0.forwardCode.forward(input.shown(by: phone, at: $0))
            }
            switch answer {
            case .success(.signedIn(let signedIn))?:
                let ticket = Ticket(
                    token: signedIn.token, digest: world.vault.digest(signedIn.token), at: world.scheduler.now,
                    phone: phone)
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
            case .success(.registrationRequired)?, .success(.steppedUp)?: return first
            case .failure(let problem)?:
                switch problem.code {
                case .providerUnavailable, .storeUnavailable:
                    if problem.retry != nil {
                        world.refused(code)
                        if chance(0.5) { return first }
                    }
                case .codeAlreadyUsed where first != nil && !weather.isOnePerson:
                    world.say("FAULT: a repeated forward was refused")
                    world.verdict.answeredWritesLost += 1
                    return first
                case .loginRequired, .codeRejected, .providerError, .identityRejected:
                    world.refused(code)
                    return first
                default: return first
                }
            case nil: break
            }
            await pause(between(300...4_000))
        }
        return first
    }

    /// Forwards the callback without the login token and verifier of the login's starter, so the broker must not return a
    /// session.
    ///
    /// If the starter has not begun an exchange yet, the stranger's verifier reaches the provider. The stranger may then get
    /// the provider's refusal of this verifier.
    private func forwardAsStranger(_ input: ForwardCodeInput) async {
        var stolen = input
        stolen.codeVerifier = try? world.vault.randomToken()
        stolen.loginToken = try? world.vault.randomToken()
        let forward = stolen
        let answer = await world.process().serve(hangUpAfter: Self.patience) {
            try await $0.forwardCode.forward(forward)
        }
        switch answer {
        case .success?: world.toldStranger("a session")
        case .failure(let problem)?:
            switch problem.code {
            case .loginRequired, .codeRejected, .providerError, .identityRejected:
                guard !world.authority.wasSent(forward.codeVerifier) else { break }
                world.toldStranger("\(problem.code)")
            default: break
            }
        case nil: break
        }
    }

    private func begin(_ code: String, _ phone: Phone?) async -> ForwardCodeInput? {
        var input = ForwardCodeInput()
        let (provider, client) = (ProviderName(unchecked: "as"), ClientName(unchecked: "app"))
        guard world.scheduler.random.chance(0.5) else {
            // In flow B, the app itself has begun the login at the provider.
            input.provider = provider
            input.client = client
            input.code = Secret(code)
            input.codeVerifier = try? world.vault.randomToken()
            input.loginToken = try? world.vault.randomToken()
            world.authority.bind(code, to: input.codeVerifier)
            return input
        }
        let answer = await world.process().serve(hangUpAfter: Self.patience) {
            var input = StartLoginInput(provider: provider, client: client)
            if let phone { input.evidence = phone.evidence(.login, by: phone.own, token: nil, at: $0) }
            return try await $0.startLogin.start(input)
        }
        guard case .success(let login)? = answer else { return nil }
        input.callbackURL =
            "com.example.app:/cb?code=\(code)&state=\(login.state.reveal())"
        input.loginToken = login.loginToken
        world.authority.bind(code, toLoginOf: login.state)
        return input
    }
}
