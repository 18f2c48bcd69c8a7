import Broker

/// The promises about the access tokens that apps get, and about the time until an app gets its token.
extension Rules {
    /// The longest time from a flight's last read of the store until its callers are answered.
    private static let flightPatience = 20_000
    /// The longest time after a trouble, such as a crash, until an app must get its token at once again.
    ///
    /// During this time, claims lapse, and the pauses after refusals end.
    private static let aftermath = 120_000
    /// The largest difference between two processes' clocks after their correction by the store's clock.
    private static let tolerance = 2_000

    /// Judges an access token that an app got for the session's own API.
    func gave(own token: AccessToken, of session: Digest, by process: SimulatedProcess, askedAt: Int) {
        let text = token.token.reveal()
        if text.contains("@") {
            fault("access token \(text) for another API was handed out as the session's own access token")
        }
        checkTime(token, askedAt)
        guard isSteady(process, askedAt) else { return }
        if let since = world.standing.uncheckedSince(session), since + Standing.cacheAge + Self.tolerance < askedAt {
            fault("access token \(text) was handed out, although its subject is unchecked since \(since)")
        }
        if !world.standing.hadOwn(text, of: session, since: askedAt - Standing.cacheAge) {
            fault("access token \(text) was handed out, but the session's row did not contain it at that time")
        }
        if let scope = world.authority.scope(of: text), token.scope != scope {
            fault("access token \(text) was handed out with scope \(token.scope), but the provider granted \(scope)")
        }
    }

    /// Judges an access token that an app got for an API other than the session's own.
    func gave(kept token: AccessToken, of session: Digest, by process: SimulatedProcess, askedAt: Int) {
        let text = token.token.reveal()
        checkTime(token, askedAt)
        if let since = world.standing.uncheckedSince(session), since + Self.tolerance < askedAt {
            fault("access token \(text) was handed out, although its subject is unchecked since \(since)")
        }
        guard isSteady(process, askedAt) else { return }
        if !world.standing.hadKept(text, of: session, since: askedAt - Standing.cacheAge) {
            fault(
                "access token \(text) was handed out, but the session's stored tokens did not include it then"
            )
        }
    }

    /// Whether a process has run, and reached the store, for long enough that it must answer with a stored token.
    private func isSteady(_ process: SimulatedProcess, _ askedAt: Int) -> Bool {
        process.isUndisturbed(since: askedAt - Standing.cacheAge)
            && process.storeFailedAt < askedAt - Self.flightPatience
    }

    private func checkTime(_ token: AccessToken, _ askedAt: Int) {
        guard !world.weather.clocksStep, let end = token.expiresAt else { return }
        let asked = WallTime(milliseconds: SimulatedProcess.begin + Int64(askedAt - Self.tolerance))
        if end < asked {
            fault(
                "access token \(token.token.reveal()) was handed out \(asked.since(end).wholeMilliseconds) ms after its expiry"
            )
        }
    }

    /// Checks that a process hands out a token that is bound to another certificate at most one time.
    ///
    /// A call may wait for a refresh by a replica that shows another certificate. The relay refuses the token from that
    /// refresh. The next call must get a token that is bound to this process's certificate.
    func checkCertificate(_ token: AccessToken, of session: Digest, by process: SimulatedProcess, askedAt: Int) {
        guard world.weather.isCertified, process.renewedAt < askedAt else { return }
        let shown = SimulatedProcess.name(ofCertificate: process.certificate)
        if token.certificate != shown, isRepeated(token, of: session, by: process, askedAt: askedAt) {
            fault(
                "token \(token.token.reveal()) of \(token.certificate ?? "no certificate") was handed out again under \(shown)"
            )
        }
    }

    // MARK: Delays

    /// Judges a temporary refusal (a 503) that an app got instead of an access token.
    ///
    /// In fine weather, without recent trouble, an app must get its token at once.
    func withheld(_ problem: BrokerProblem, of ticket: Ticket, askedAt: Int) {
        guard problem.code == .providerUnavailable || problem.code == .storeUnavailable,
            world.weather.isFine,
            world.troubledAt + Self.aftermath < askedAt
        else { return }
        // A step-up aborts the refreshes of the grant that it replaces. So the callers of such a refresh may be refused.
        if let steppedUp = world.steppedUpAt(ticket.holder.digest), steppedUp >= askedAt - Standing.cacheAge { return }
        fault(
            "an app got no access token in fine weather: \(problem.code.rawValue), \(problem.privateDetail ?? "")")
    }
}

/// The targets that the provider has refused, as each process knows them.
///
/// After a refusal, the process must not request the target again for a minute for the same session, and for five seconds for
/// other sessions of the client.
final class RefusedTargets {
    private struct Place: Hashable {
        let process: Int
        let session: Digest
        let target: TokenTarget
    }

    private struct Shared: Hashable {
        let process: Int
        let target: TokenTarget
    }

    private static let pause = 59_000
    private static let sharedPause = 1_500...4_500

    private var refused: [Place: Int] = [:]
    private var shared: [Shared: (at: Int, session: Digest)] = [:]

    /// Notes that a process has received the provider's refusal of a target.
    func refused(_ target: TokenTarget, of session: Digest, by process: SimulatedProcess, at moment: Int) {
        refused[Place(process: process.id, session: session, target: target)] = moment
        guard SimulatedTarget(target).isRefusedToClient else { return }
        shared[Shared(process: process.id, target: target)] = (moment, session)
    }

    /// Forgets the targets that were refused to a session.
    ///
    /// The session's user has signed in again, and may have agreed to these targets.
    func forget(_ session: Digest) { refused = refused.filter { $0.key.session != session } }

    /// Returns whether a call requests a target too soon after the provider refused this target to the same session.
    func isTooSoon(_ target: TokenTarget, of session: Digest, by process: SimulatedProcess, at moment: Int) -> Bool {
        refused[Place(process: process.id, session: session, target: target)].map {
            moment - $0 < Self.pause
        } ?? false
    }

    /// Returns whether a call requests a target too soon after the provider refused this target to another session of the same
    /// client.
    func isTooSoonForClient(
        _ target: TokenTarget, of session: Digest, by process: SimulatedProcess, at moment: Int
    ) -> Bool {
        guard let last = shared[Shared(process: process.id, target: target)], last.session != session
        else { return false }
        return Self.sharedPause.contains(moment - last.at)
    }
}
