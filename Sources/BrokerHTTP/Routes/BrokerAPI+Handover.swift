import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// `POST /v1/session/handovers`: a ticket for the app's own web view.
    @Sendable func beginHandover(_ call: Call) async throws(BrokerProblem) -> Answer {
        // The session that results from the hand-over may outlive a pass, so a pass is not enough.
        let parent = try await credentials(call).open(demanding: .proof, admitting: .exceptChildren).session
        let handover = try await useCases.handOver.begin(
            try handoverOrder(call), of: parent, charge: charge(call))
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.member("url", handover.url.reveal())
            writer.member("expires_at", handover.expiresAt.rfc3339)
        }
        return Answers.json(.created, writer.bytes, call)
    }

    private func handoverOrder(_ call: Call) throws(BrokerProblem) -> HandoverOrder {
        var body = try json(call)
        let origin = body.text("origin", required: true, length: 1...255, where: RequestText.isVisible)
        if let origin, ProofAddress(origin).map({ $0.path != "/" || $0.origin != origin }) ?? true {
            body.fault("origin", .malformed)
        }
        let path = body.text("path", length: 1...2048, where: RequestText.isVisible)
        if let path, !Self.isPath(path) { body.fault("path", .malformed) }
        let challenge = body.text("challenge", required: true, length: 43...43, where: RequestText.isBase64URL)
        let digest = challenge.flatMap { Base64URL.decode($0) }.flatMap(Digest.init)
        if challenge != nil, digest == nil { body.fault("challenge", .malformed) }
        try body.finish()
        guard let origin, let digest else { throw BrokerProblem(.invalidRequest) }
        return HandoverOrder(origin: origin, path: path ?? "/", challenge: digest)
    }

    /// Returns whether a browser that resolves the text stays at the same origin.
    private static func isPath(_ text: String) -> Bool {
        text.hasPrefix("/") && !text.hasPrefix("//") && !text.utf8.contains { $0 == 0x5C || $0 == 0x23 }
    }

    /// `GET /handover/{ticket}`: a page that submits its form with its own script.
    ///
    /// Opening the page does not spend the ticket.
    @Sendable func showHandover(_ call: Call) async throws(BrokerProblem) -> Answer {
        let ticket = ticket(of: call)
        try await charge(call).forWrongTokens { () async throws(BrokerProblem) in
            try await useCases.handOver.look(ticket)
        }
        var fields = HandoverPage.fields(call.requestID)
        fields.append(HandoverPage.html)
        return Answer(.ok, fields, body: .whole(HandoverPage.page))
    }

    /// `POST /handover/{ticket}`: spends the ticket if the browser's cookie has the secret.
    @Sendable func spendHandover(_ call: Call) async throws(BrokerProblem) -> Answer {
        try checkIsOwnPage(call)
        let ticket = ticket(of: call)
        let credentials = credentials(call)
        let verifier = try credentials.cookie(cookies.handoverName)
        let held = try [credentials.cookie(cookies.sessionName), credentials.cookie(cookies.webName)].compactMap { $0 }
        let done: HandedOver
        do throws(BrokerProblem) {
            done = try await charge(call).forWrongTokens { () async throws(BrokerProblem) in
                try await useCases.handOver.spend(ticket, verifier: verifier, held: held)
            }
        } catch {
            // Charge only for a wrong secret, because it can be a guess. A request without a secret may come from a link
            // scanner.
            if error.code == .verifierMismatch, verifier != nil { try charge(call).takeWrongToken() }
            throw error
        }
        RequestScope.concerns(done.child.session.handle)
        var fields = HandoverPage.fields(call.requestID)
        fields.append(HTTPField(name: .location, value: name.origin + done.path))
        let rest = min(done.child.session.expiresAt, done.child.endsAtLatest).since(clock.now())
        fields.append(cookies.web(done.child.token, lifetime: rest, done.sameSite))
        fields.append(cookies.clearedHandover)
        return Answer(.seeOther, fields)
    }

    /// `POST /v1/handovers/redeem`: a backend spends a ticket for its own origin.
    ///
    /// The backend sends the secret from the cookie of the request that brought the ticket.
    @Sendable func redeemHandover(_ call: Call) async throws(BrokerProblem) -> Answer {
        let backend = try backend(call, for: .handover)
        var body = try json(call)
        let ticket = body.token("ticket", required: true, length: 43...43)
        let verifier = body.token("verifier", required: true, length: 43...128)
        try body.finish()
        guard let ticket, let verifier else { throw BrokerProblem(.invalidRequest) }
        let configuration = backend.configuration
        let done = try await useCases.handOver.redeem(ticket, verifier: verifier) { origin in
            ProofAddress(origin).map { configuration.origins.contains($0) } ?? false
        } admits: { session throws(BrokerProblem) in
            guard configuration.mayAsk(about: session.facts.provider, session.facts.client) else {
                throw BrokerProblem(.backendNotAllowed)
            }
        }
        RequestScope.concerns(done.child.session.handle)
        return Answers.json(
            .ok, SessionBody.bytes(done.child.session, sessionToken: done.child.token), call)
    }

    private func ticket(of call: Call) -> Secret { Secret(String(call.parameters.first ?? "")) }

    /// Throws `cross_origin` unless the request shows that a page of the broker made it.
    ///
    /// Otherwise, another site's page could spend a ticket. `Sec-Fetch-Site` or `Origin` must be present. Browser engines that
    /// lack `Sec-Fetch-Site` send `Origin` with every POST.
    private func checkIsOwnPage(_ call: Call) throws(BrokerProblem) {
        let (sites, origins) = (call.fields.fetchSites, call.fields.origins)
        guard sites.count <= 1, origins.count <= 1, !(sites.isEmpty && origins.isEmpty),
            sites.first.map({ $0 == "same-origin" }) ?? true, origins.first.map({ $0 == name.origin }) ?? true
        else { throw BrokerProblem(.crossOrigin) }
    }
}
