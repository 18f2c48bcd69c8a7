import Broker

/// A person whose app calls several APIs, each with an access token for this API.
extension User {
    /// Asks for the access tokens of several APIs at once, and at the same time for the session's own access token.
    func askBeside(_ own: Ticket, _ widget: Ticket?) async -> Seen {
        await withTaskGroup(of: Seen.self) { group in
            for number in 0..<world.scheduler.random.number(1...3) {
                let target = SimulatedTarget.pick(
                    &world.scheduler.random, refused: world.weather.refusedTargets)
                let forced = world.scheduler.random.chance(world.weather.forced)
                let ticket = number == 1 ? widget ?? own : own
                group.addTask { await self.targetToken(ticket, target, forced: forced) }
            }
            if world.scheduler.random.chance(0.6) {
                let forced = world.scheduler.random.chance(world.weather.forced)
                group.addTask { await self.token(own, forced: forced) }
            }
            return await group.reduce(.lives) { $0 == .ended || $1 == .ended ? .ended : $1 }
        }
    }

    /// Asks for an access token for an API other than the session's own.
    ///
    /// With `forced`, asks for a newer token, as if the API had refused the present token.
    private func targetToken(_ ticket: Ticket, _ target: TokenTarget, forced: Bool) async -> Seen {
        let (world, process, began) = (world, world.process(), world.scheduler.now)
        let answer = await process.serve(hangUpAfter: patience()) { useCases in
            let live = try await useCases.resumeSession.use(ticket.token, { ticket.evidence(at: useCases) })
            world.used(ticket, askedAt: began)
            let leave = world.rules.waits(process, live.tokenHolder.tokenDigest)
            defer { leave() }
            let token = try await useCases.fetchTargetToken.accessToken(for: live, at: target)
            guard forced else { return token }
            let newer = try await useCases.fetchTargetToken.accessToken(for: live, at: target, insteadOf: token)
            if newer.version <= token.version { world.rules.notNewer(token.version) }
            return newer
        }
        switch answer {
        case .success(let token)?:
            world.handedOut(token, for: target, ticket, by: process, askedAt: began)
            return .lives
        case .failure(let problem)? where problem.code == .sessionEnded || problem.code == .sessionRequired:
            await world.toldOfEnd(ticket)
            return .ended
        case .failure(let problem)?:
            if !SimulatedTarget(target).isRefused { world.rules.withheld(problem, of: ticket, askedAt: began) }
            return .unknown
        case nil: return .unknown
        }
    }
}
