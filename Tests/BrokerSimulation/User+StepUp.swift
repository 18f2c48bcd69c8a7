import Broker

/// A person who steps up an existing session, which means a new sign-in for this session.
extension User {
    /// Steps a session up.
    ///
    /// In most cases, other calls use the session at the same time.
    func stepUpBeside(_ ticket: Ticket, _ widget: Ticket?) async -> Seen {
        guard world.scheduler.random.chance(0.6) else { return await stepUp(ticket) }
        async let seen = stepUp(ticket)
        let forced = world.scheduler.random.chance(0.7)
        let beside = await token(world.scheduler.random.chance(0.7) ? ticket : widget ?? ticket, forced: forced)
        let own = await seen
        return own == .ended || beside == .ended ? .ended : own
    }

    private func stepUp(_ ticket: Ticket) async -> Seen {
        guard let person = world.person(of: ticket) else { return .unknown }
        let weather = world.weather
        let isWeak = world.scheduler.random.chance(weather.weakSignIns)
        let isStrangers = !isWeak && world.scheduler.random.chance(weather.strangersSignIn)
        let code = world.authority.stepUp(
            person, of: ticket.digest, givesToken: !world.scheduler.random.chance(weather.keepsGrant),
            repeatsToken: world.scheduler.random.chance(weather.repeatsToken),
            repeatsNewest: weather.repeatsNewest > 0 && world.scheduler.random.chance(weather.repeatsNewest),
            isWeak: isWeak, isStrangers: isStrangers)
        world.begins(stepUp: code, of: ticket.digest)
        let (process, asked, world) = (world.process(), world.scheduler.now, world)
        let started = await process.serve(hangUpAfter: Self.patience) { useCases in
            let live = try await useCases.resumeSession.resume(ticket.token, { ticket.evidence(at: useCases) })
            world.rules.served(live.row, by: process, askedAt: asked)
            var input = StartLoginInput(provider: nil)
            input.demand = StepUpDemand(contextClasses: ["mfa"], maximumAge: 300)
            input.steppingUp = live
            return try await useCases.startLogin.start(input)
        }
        switch started {
        case .success(let login)?:
            var input = ForwardCodeInput()
            input.callbackURL = "com.example.app:/cb?code=\(code)&state=\(login.state.reveal())"
            input.loginToken = login.loginToken
            input.presentedSession = ticket.token
            world.authority.bind(code, toLoginOf: login.state)
            if let other = otherSession(than: ticket) {
                input.presentedSession = other.token
                await finishAsAnother(input, ticket.phone)
                return .unknown
            }
            return await forwardStepUp(input, code, ticket)
        case .failure(let problem)? where problem.code == .sessionEnded || problem.code == .sessionRequired:
            await world.toldOfEnd(ticket)
            return .ended
        default: return .unknown
        }
    }

    /// Returns another session, whose token is used to finish the step-up, with the probability `othersFinish`; otherwise nil.
    private func otherSession(than ticket: Ticket) -> Ticket? {
        guard world.scheduler.random.chance(world.weather.othersFinish) else { return nil }
        let others = world.tickets.filter { $0.digest != ticket.digest }
        return others.isEmpty ? nil : world.scheduler.random.pick(others)
    }

    /// Forwards the step-up's callback with the token of another session.
    ///
    /// The broker must refuse this.
    private func finishAsAnother(_ input: ForwardCodeInput, _ phone: Phone?) async {
        let answer = await world.process().serve(hangUpAfter: Self.patience) {
            try await $0.forwardCode.forward(input.shown(by: phone, at: $0))
        }
        if case .success? = answer { world.toldStranger("another session's step-up") }
    }

    /// Forwards the step-up's callback.
    ///
    /// Retries if the answer allows a retry, or if the app hung up.
    ///
    /// Sometimes forwards the callback again after a success.
    private func forwardStepUp(_ input: ForwardCodeInput, _ code: String, _ ticket: Ticket) async -> Seen {
        var succeeded = false
        var repeats = world.scheduler.random.chance(0.3) ? 1 : 0
        for _ in 0..<12 {
            let patience =
                world.isFoul && world.scheduler.random.chance(world.weather.hangUps)
                ? world.scheduler.random.number(200...28_000) : Self.patience
            let answer = await world.process().serve(hangUpAfter: patience) {
                try await $0.forwardCode.forward(input.shown(by: ticket.phone, at: $0))
            }
            switch answer {
            case .success(.steppedUp(let steppedUp))?:
                world.told(of: steppedUp, ticket)
                succeeded = true
                if repeats == 0 { return .lives }
                repeats -= 1
            case .success?:
                world.say("FAULT: a step-up made another session")
                world.verdict.answeredWritesLost += 1
                return .lives
            case .failure(let problem)?:
                switch problem.code {
                case .sessionEnded, .sessionRequired:
                    await world.toldOfEnd(ticket)
                    return .ended
                case .providerUnavailable, .storeUnavailable:
                    if problem.retry != nil {
                        if succeeded { world.forgot(ticket) }
                        world.refused(code)
                        return .unknown
                    }
                case .loginRequired, .codeRejected, .providerError, .identityRejected, .codeAlreadyUsed,
                    .subjectMismatch, .stepUpFailed:
                    if succeeded { world.forgot(ticket) }
                    world.refused(code)
                    return .unknown
                default: return .unknown
                }
            case nil: break
            }
            let wake = Promise<Int>()
            world.scheduler.after(world.scheduler.random.number(300...4_000)) { wake.resolve(0) }
            _ = await wake.wait()
        }
        return .unknown
    }
}
