import Broker

/// A person who confirms single calls at the phone, while other programs try to use copies of the presence proofs.
extension User {
    /// Returns a new phone; nil if the sessions of this run are unbound.
    func newPhone() -> Phone? {
        guard weather.presence > 0 else { return nil }
        return try? Phone(world.vault)
    }

    /// Registers the presence key of a session, and repeats the request after a failure or a lost answer.
    ///
    /// Afterwards, a program that has the session's own key sometimes tries to register another presence key.
    func registerPresence(_ ticket: Ticket) async {
        guard let phone = ticket.phone else { return }
        for _ in 0..<8 where world.isFoul && !ticket.hasPresenceKey {
            switch await register(phone, ticket) {
            case .success?: ticket.hasPresenceKey = true
            case .failure(let problem)?:
                if problem.code == .sessionEnded || problem.code == .sessionRequired { return }
                world.rules.refusedKey(problem)
                await wait(200...3_000)
            case nil: await wait(200...3_000)
            }
        }
        guard ticket.hasPresenceKey, chance(0.2), let other = newPhone() else { return }
        if case .success? = await register(other, ticket) { world.rules.replacedPresence() }
    }

    private func register(_ phone: Phone, _ ticket: Ticket) async -> Result<Bool, BrokerProblem>? {
        await world.process().serve(hangUpAfter: patience()) { useCases in
            let live = try await useCases.resumeSession.resume(
                ticket.token, { ticket.evidence(.registration, at: useCases) }, .proof)
            let evidence = phone.evidence(.registration, by: phone.presence, token: ticket.token, at: useCases)
            _ = try await useCases.registerPresenceKey.register(evidence, for: live)
            return true
        }
    }

    /// Makes a call that needs the user's presence, or lets a program try such a call without the user.
    func confirm(_ ticket: Ticket) async -> Seen {
        guard let phone = ticket.phone, ticket.hasPresenceKey else { return .unknown }
        let process = world.process()
        let method = world.scheduler.random.pick(["GET", "POST"])
        let path = "/v1/relay/bank/payments/\(world.scheduler.random.number(1...2))"
        let request = SimulatedRequest(method: method, path: path)
        switch world.scheduler.random.number(0...11) {
        case 0:
            // A program makes the proof with the session's own key, or with the presence key of another phone.
            let isOwn = chance(0.5)
            guard let key = isOwn ? phone.own : otherPhone(than: ticket)?.presence,
                let proof = proof(of: ticket, phone, key, request, at: process)
            else { return .unknown }
            _ = await send(ticket, proof, request, at: process)
        case 1 where world.weather.processes > 1:
            let age = between(960_000...3_000_000)
            guard let proof = proof(of: ticket, phone, phone.presence, request, at: process, age: age) else {
                return .unknown
            }
            _ = await send(ticket, proof, request, at: process)
        case 2, 3, 4:
            guard let proof = proof(of: ticket, phone, phone.presence, request, at: process) else { return .unknown }
            return await sendCopied(ticket, proof, at: process)
        default:
            guard let proof = proof(of: ticket, phone, phone.presence, request, at: process) else { return .unknown }
            return await sendPatiently(ticket, proof, at: process)
        }
        return .unknown
    }

    /// Makes a presence proof, either with the process's newest nonce or with a nonce of the given age.
    private func proof(
        of ticket: Ticket, _ phone: Phone, _ key: Phone.Key, _ request: SimulatedRequest,
        at process: SimulatedProcess, age: Int? = nil
    ) -> PresenceProof? {
        guard let newest = process.useCases?.proofNonce() else { return nil }
        let old = age.map {
            ProofNonce.text(at: world.wallTime.advanced(by: .milliseconds(-$0)), by: world.vault)
        }
        let text = phone.proof(request, by: key, token: ticket.token, nonce: old ?? newest)
        return PresenceProof(
            text, for: request, of: ticket.digest, isByPresenceKey: key.thumbprint == phone.presence.thumbprint,
            nonceMadeAt: world.scheduler.now - (age ?? 0))
    }

    /// Returns the phone that another session is bound to.
    private func otherPhone(than ticket: Ticket) -> Phone? {
        let others = world.tickets.filter { $0.digest != ticket.digest && $0.phone != nil }
        return others.isEmpty ? newPhone() : world.scheduler.random.pick(others).phone
    }

    /// Makes the call, while a program sends copies of the proof, some of them with other requests.
    private func sendCopied(_ ticket: Ticket, _ proof: PresenceProof, at process: SimulatedProcess) async -> Seen {
        await withTaskGroup(of: Seen.self) { group in
            for number in 0...world.scheduler.random.number(1...2) {
                let other = number > 0 ? world.process() : process
                let request = number > 0 && chance(0.3) ? otherRequest(than: proof.request) : proof.request
                group.addTask {
                    await wait(0...(chance(0.3) ? 3_000 : 30))
                    return await send(ticket, proof, request, at: other)
                }
            }
            return await group.reduce(.lives) { $0 == .ended || $1 == .ended ? .ended : $1 }
        }
    }

    /// Returns a request that differs from the given request in its method or path.
    private func otherRequest(than request: SimulatedRequest) -> SimulatedRequest {
        guard chance(0.5) else { return SimulatedRequest(method: request.method, path: "/v1/relay/bank/accounts/1") }
        return SimulatedRequest(method: "DELETE", path: request.path)
    }

    /// Makes the call.
    ///
    /// After a failure or a lost answer, repeats the call with the same proof.
    private func sendPatiently(_ ticket: Ticket, _ proof: PresenceProof, at process: SimulatedProcess) async -> Seen {
        for number in 0..<4 {
            let seen = await send(ticket, proof, proof.request, at: number == 0 ? process : world.process())
            if seen == .ended || (seen == .lives && !chance(0.2)) { return seen }
            await wait(50...3_000)
        }
        return .unknown
    }

    /// Makes one call in the way of the relay: the proof is checked early, and is used up immediately before the call is sent
    /// to the upstream.
    private func send(
        _ ticket: Ticket, _ proof: PresenceProof, _ request: SimulatedRequest, at process: SimulatedProcess
    ) async -> Seen {
        let (world, upstream, began) = (world, SimulatedUpstream(world: world), world.scheduler.now)
        let show = PresenceShow(proof, for: request, of: ticket.digest, at: process, askedAt: began)
        let answer = await process.serve(hangUpAfter: patience()) { useCases in
            show.begins()
            defer { show.ends() }
            let live = try await useCases.resumeSession.use(
                ticket.token, { ticket.evidence(request, at: useCases) })
            world.used(ticket, askedAt: began)
            let evidence = PresentedEvidence(proofs: [proof.text], target: request.target)
            let presence = try await useCases.presenceCheck.judge(evidence, of: live)
            _ = try await useCases.refreshTokens.accessToken(for: live)
            show.takes()
            world.presences.takes(ticket.digest, at: world.scheduler.now)
            world.say("\(show.words) uses the proof up")
            do throws(BrokerProblem) { try await presence.take() } catch {
                if error.presence == nil { show.isInDoubt() }
                throw error
            }
            do throws(SimulatedUpstream.Failure) { try await upstream.send(show) } catch {
                if error.isUnsent {
                    await presence.giveBack()
                    show.isGivenBack()
                    world.say("\(show.words) has released the proof")
                }
                throw error.problem
            }
            return true
        }
        switch answer {
        case .success?: return .lives
        case .failure(let problem)? where problem.code == .sessionEnded || problem.code == .sessionRequired:
            await world.toldOfEnd(ticket)
            return .ended
        case .failure(let problem)?:
            if proof.isByPresenceKey, request == proof.request, began < proof.endsAt {
                world.rules.refused(show, problem)
                world.rules.withheld(problem, of: ticket, askedAt: began)
            }
            return .unknown
        case nil: return .unknown
        }
    }
}
