import Broker

extension OldSystemProbing where Self: EngineBacked {
    package func probeOldSystems() async -> [ProbeResult] { await engine.probeOldSystems() }
}

extension OIDCClient: OldSystemProbing {}
extension OAuth2Client: OldSystemProbing {}

extension OAuthEngine {
    /// Asks each old system about a made-up token, with its credential and with a wrong one.
    func probeOldSystems() async -> [ProbeResult] {
        var results: [ProbeResult] = []
        for client in settings.clients {
            guard let oldSystem = try? self.client(client.profile.name).oldSystem else { continue }
            results += await probe(oldSystem, client.profile.name)
        }
        return results
    }

    private func probe(_ oldSystem: OldSystem, _ client: ClientName) async -> [ProbeResult] {
        guard let id = try? random(32), let token = try? random(32), let wrong = try? random(32) else { return [] }
        let claim = LegacyClaim(
            id: Base64URL.encode(id), client: client, token: Secret("coatcheck-check-" + Base64URL.encode(token)))
        let place = "client `\(client.text)`: the old system"
        func result(_ text: String, isGood: Bool = false) -> ProbeResult {
            ProbeResult(subject: "move_in", isGood: isGood, text: "\(place) \(text)")
        }
        var results: [ProbeResult] = []
        do throws(ProviderFailure) {
            switch try await oldSystem.claim(claim, by: clock.monotonic() + OldSystem.time) {
            case .refused: results.append(result("refuses a made-up token, and repeats its `id`", isGood: true))
            case .session: results.append(result("gives a session for a made-up token"))
            }
        } catch {
            if case .notSent = error { return [result("is unreachable: \(error.detail)")] }
            return [result("has to refuse a made-up token with 404 and its `id`: \(error.detail)")]
        }
        do throws(ProviderFailure) {
            let answer = try await oldSystem.ask(
                claim, credential: Secret(Base64URL.encode(wrong)), by: clock.monotonic() + OldSystem.time)
            let refuses = [401, 403].contains(answer.status)
            results.append(
                refuses
                    ? result("refuses a wrong credential", isGood: true)
                    : result("answers \(answer.status) to a wrong credential: anyone may ask it for refresh tokens"))
        } catch {
            results.append(result("fails to answer a wrong credential: \(error.detail)"))
        }
        return results
    }
}
