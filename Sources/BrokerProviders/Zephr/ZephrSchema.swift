import Broker

/// Reads the required attributes from the site's user schema, with an anonymous session.
struct ZephrSchema: Sendable {
    let own: ZephrSettings
    let base: EndpointURL
    let caller: ProviderCaller
    let clock: BrokerClock

    func fetch() async -> Result<(value: [RegistrationField], lifetime: Duration), ProviderFailure> {
        do throws(ProviderFailure) { return .success((try await fields(), .seconds(600))) } catch {
            return .failure(error)
        }
    }

    private func fields() async throws(ProviderFailure) -> [RegistrationField] {
        let opened = try await caller.send(
            ProviderRequest(
                method: "POST", url: try base.at(own.paths.anonymousSession), connection: .single,
                headers: [("Accept", "application/json")], body: []), by: caller.ownLimit)
        try opened.requireUsable(at: clock.now())
        guard opened.isSuccess, let cookie = ZephrWire.session(opened, name: own.cookieName, now: clock.now()) else {
            throw .unusable(detail: "Zephr anonymous session: \(opened.summary)")
        }
        var request = ProviderRequest.get(try base.at(own.paths.schema))
        request.headers.append(("Cookie", own.cookieName + "=" + cookie.session.reveal()))
        let answer = try await caller.send(request, by: caller.ownLimit)
        try answer.requireUsable(at: clock.now())
        let parsed = try? JSONParser.parse(answer.body, maximumBytes: ProviderAnswer.maximumBytes, maximumDepth: 16)
        guard answer.isSuccess, let items = parsed?.value.array else {
            throw .unusable(detail: "Zephr schema: \(answer.summary), no list")
        }
        return ZephrWire.fields(items)
    }
}
