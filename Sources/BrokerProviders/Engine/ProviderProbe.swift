import Broker

/// Tests a provider for `coatcheck check --online`.
enum ProviderProbe {
    /// The largest tolerable clock difference, in seconds.
    ///
    /// With a greater difference, tokens seem to be issued in the future or to have expired.
    private static let tolerableSkew: Int64 = 30

    /// Requests a URL, to test the connection and to compare the clocks.
    static func reach(_ url: EndpointURL, caller: ProviderCaller, clock: BrokerClock) async -> [ProbeResult] {
        do throws(ProviderFailure) {
            let answer = try await caller.send(.get(url, accept: "*/*"), by: caller.ownLimit)
            let reached = ProbeResult(
                subject: "reach", isGood: answer.status < 500, text: "answers with \(answer.status)")
            return [reached] + [skew(answer.header("Date"), now: clock.now())].compactMap(\.self)
        } catch {
            let text = "is not reached: \(error.detail); check the address, DNS, the firewall and `outbound`"
            return [ProbeResult(subject: "reach", isGood: false, text: text)]
        }
    }

    private static func skew(_ date: String?, now: WallTime) -> ProbeResult? {
        guard let theirs = date.flatMap(HTTPDate.parse) else { return nil }
        let seconds = now.since(theirs).wholeSeconds
        if abs(seconds) <= tolerableSkew {
            return ProbeResult(subject: "clock", isGood: true, text: "agrees within \(tolerableSkew) s")
        }
        let text = "this machine is \(abs(seconds)) s \(seconds > 0 ? "ahead" : "behind"): set it by NTP"
        return ProbeResult(subject: "clock", isGood: false, text: text)
    }
}

extension OAuthEngine {
    /// Tests metadata, key set and clock.
    func probe(keysToo: Bool) async -> [ProbeResult] {
        let known: Metadata
        do throws(ProviderFailure) { known = try await metadata() } catch {
            let hint = "check `issuer`, which is compared byte for byte, or fix `endpoints` with `discovery: off`"
            return [ProbeResult(subject: "discovery", isGood: false, text: "\(error.detail); \(hint)")]
        }
        var results: [ProbeResult] = []
        if settings.discovery { results.append(ProbeResult(subject: "discovery", isGood: true, text: "is in order")) }
        for (name, url, member) in [
            ("authorization", known.authorization, Metadata.Member.authorization), ("token", known.token, .token),
        ] where url == nil && known.unusable[member] == nil {
            results.append(
                ProbeResult(
                    subject: "discovery", isGood: false, text: "names no \(name) endpoint; set `endpoints.\(name)`"))
        }
        if settings.discovery {
            results += unusable(known)
            results += promises(known, keysToo: keysToo)
        }
        if keysToo {
            do throws(ProviderFailure) {
                let count = try await keys.count()
                let text = count > 0 ? "are in order: \(count)" : "none can be used; check `endpoints.jwks`"
                results.append(ProbeResult(subject: "keys", isGood: count > 0, text: text))
            } catch {
                let text = "\(error.detail); check `endpoints.jwks`, or the provider's jwks_uri"
                results.append(ProbeResult(subject: "keys", isGood: false, text: text))
            }
        }
        // Ask the authorization endpoint for the time, because it accepts a GET.
        if let url = known.authorization {
            results += await ProviderProbe.reach(url, caller: caller, clock: clock)
        }
        return results
    }

    /// Returns a fault for each endpoint that a sign-in needs but whose URL is unusable.
    ///
    /// For an endpoint that only a feature needs, the result is marked as doubtful.
    private func unusable(_ known: Metadata) -> [ProbeResult] {
        faults(of: known).map { fault in
            ProbeResult(
                subject: "discovery", isGood: !fault.isNeeded, text: fault.text, isDoubtful: !fault.isNeeded)
        }
    }

    /// Compares the clients' settings with the methods and features that the metadata lists.
    private func promises(_ known: Metadata, keysToo: Bool) -> [ProbeResult] {
        var results: [ProbeResult] = []
        func fault(_ subject: String, _ text: String) {
            results.append(ProbeResult(subject: subject, isGood: false, text: text))
        }
        for client in settings.clients where client.wire.profile == nil {
            let name = client.profile.name.text
            let method = client.authentication.method
            // `none` means that the client does not authenticate. Many servers that accept public clients omit `none` from the
            // list (RFC 8414 section 2).
            if method != "none", let listed = known.tokenMethods, !listed.contains(method) {
                fault(
                    "method",
                    "client `\(name)` proves itself by \(method), which the metadata does not list; change `auth`")
            }
            if client.profile.pkce == .required, let listed = known.challengeMethods, !listed.contains("S256") {
                fault("pkce", "the metadata lists PKCE methods without S256: no login of client `\(name)` can start")
            }
            if keysToo, let listed = known.idTokenAlgorithms,
                !client.wire.idToken.algorithms.contains(where: { $0.isListed(in: listed) })
            {
                fault(
                    "algorithms",
                    "client `\(name)` accepts no algorithm that the metadata lists; change `id_token.algorithms`")
            }
            if case .privateKeyJWT(let key) = client.authentication, let listed = known.assertionAlgorithms,
                !key.algorithm.isListed(in: listed)
            {
                fault(
                    "algorithms",
                    "client `\(name)` signs with \(key.algorithm.rawValue), which the metadata does not list")
            }
        }
        for client in settings.clients
        where client.wire.profile == nil && client.profile.senderConstraint == .dpop
            && known.proofAlgorithms?.contains("ES256") != true
        {
            let text =
                "client `\(client.profile.name.text)` has `sender_constrained: dpop`, and "
                + "dpop_signing_alg_values_supported does not list ES256: it may bind no tokens"
            results.append(ProbeResult(subject: "dpop", isGood: true, text: text, isDoubtful: true))
        }
        results += importFindings(known, isOpenID: keysToo)
        for client in settings.clients { results += lacks(known, client, isOpenID: keysToo) }
        if known.promisesIssuer, let own = settings.callbackIssuer, let published = known.issuer,
            !IssuerExpectation.matches(published, own)
        {
            fault("issuer", "`callback_issuer` is not the metadata's issuer, which it promises to send in callbacks")
        }
        if results.isEmpty {
            results.append(
                ProbeResult(
                    subject: "metadata", isGood: true, text: "fits the clients: method, PKCE, algorithms, issuer"))
        }
        return results
    }
}

extension ZephrClient: ProviderInspection {
    package var breaker: CircuitBreaker.State { caller.limiter.breaker }
    package var failuresInARow: Int { caller.limiter.failuresInARow }
    package var refusesCallsFor: Duration? { caller.limiter.refusesFor }
    package var places: Int { caller.limiter.places }

    package func probe() async -> [ProbeResult] {
        await ProviderProbe.reach(base, caller: caller, clock: clock)
    }
}
