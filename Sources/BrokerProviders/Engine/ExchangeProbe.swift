import Broker

extension OAuthEngine {
    /// Makes one token exchange with a made-up token for each client that gets a token for another API by token exchange.
    ///
    /// If the client may exchange tokens, the provider refuses the made-up token. Otherwise the provider refuses the client.
    func probeExchange() async -> [ProbeResult] {
        var results: [ProbeResult] = []
        for client in settings.clients {
            guard let target = client.targets.first(where: { $0.grant == .exchange }),
                let nobodys = try? Secret(Base64URL.encode(random(32)))
            else { continue }
            let place = "client `\(client.profile.name.text)`"
            var request = TargetExchange(client: client.profile.name, subjectToken: nobodys, target: target)
            request.isCertified = client.profile.senderConstraint == .mtls
            do throws(ProviderFailure) {
                _ = try await exchange(request, by: clock.monotonic() + settings.limits.total)
                results.append(
                    ProbeResult(
                        subject: "exchange", isGood: false, text: "\(place): a token was given for one that is nobody's"
                    ))
            } catch {
                results.append(Self.result(of: error, place))
            }
        }
        return results
    }

    /// Interprets the provider's failure.
    ///
    /// For a made-up token, RFC 8693 section 2.2.2 requires `invalid_request`.
    ///
    /// Some servers answer `invalid_grant` or `invalid_token` instead, or request a proof. These answers show that the client
    /// itself was accepted.
    private static func result(of failure: ProviderFailure, _ place: String) -> ProbeResult {
        guard case .rejected(let refusal) = failure else {
            return ProbeResult(
                subject: "exchange", isGood: true, text: "\(place): not known: \(failure.detail)", isDoubtful: true)
        }
        switch refusal.code {
        case "invalid_request", "invalid_grant", "invalid_token", "invalid_dpop_proof", "use_dpop_nonce":
            return ProbeResult(subject: "exchange", isGood: true, text: "\(place): may exchange tokens")
        case "invalid_target", "invalid_scope":
            return ProbeResult(
                subject: "exchange", isGood: false,
                text: "\(place): the provider does not know what its token is to be for: \(refusal.code)")
        default:
            return ProbeResult(
                subject: "exchange", isGood: false,
                text: "\(place): may not exchange tokens: \(refusal.code); register it for that, or name no `exchange`")
        }
    }
}

extension OIDCClient: ExchangeProbing {
    package func probeExchange() async -> [ProbeResult] { await engine.probeExchange() }
}

extension OAuth2Client: ExchangeProbing {
    package func probeExchange() async -> [ProbeResult] { await engine.probeExchange() }
}
