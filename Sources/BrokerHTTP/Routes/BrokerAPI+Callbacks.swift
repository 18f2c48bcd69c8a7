import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// `GET /callback/{provider}`: the hosted callback (flow C).
    ///
    /// Only this GET consumes a state. HEAD, prefetch and link previews leave the login unchanged (SEC-44).
    @Sendable func hostedCallback(_ call: Call) async throws(BrokerProblem) -> Answer {
        if call.isHead { return Answers.empty(.ok, call) }
        guard !call.fields.isPrefetch else {
            throw BrokerProblem(.invalidRequest, detail: "A callback is not fetched ahead of its time.")
        }
        let provider = try provider(of: call)
        let names = useCases.hostedCallback.names(of: provider)
        let pairs: FormPairs
        do throws(FormPairs.Failure) { pairs = try FormPairs(reading: names, of: Array((call.query ?? "").utf8)) } catch
        {
            let words = error.text(names)
            throw BrokerProblem(
                .invalidCallback, detail: "The callback is malformed: \(words).", privateDetail: words)
        }
        return try await toTheApp(pairs, of: provider, call)
    }

    /// `POST /callback/{provider}`: the hosted callback with `response_mode=form_post` (Apple).
    ///
    /// This route ignores cookies and sets none.
    @Sendable func hostedFormCallback(_ call: Call) async throws(BrokerProblem) -> Answer {
        let provider = try provider(of: call)
        let pairs = try RequestForm.pairs(call.body, for: useCases.hostedCallback.names(of: provider))
        // With `form_post`, the provider's whole answer is in the body, so a query must come from another party.
        guard (call.query ?? "").isEmpty else {
            throw BrokerProblem(.invalidCallback, privateDetail: "a query beside a form post")
        }
        return try await toTheApp(pairs, of: provider, call)
    }

    private func toTheApp(
        _ pairs: FormPairs, of provider: ProviderName, _ call: Call
    ) async throws(BrokerProblem) -> Answer {
        let target = try await useCases.hostedCallback.receive(
            provider: provider, parameters: pairs, charge: charge(call))
        let location = target.reveal()
        guard HTTPField.isValidValue(location) else { throw BrokerProblem(.internalError) }
        // With a 303, the browser sends a GET instead of repeating the POST, and does not cache the redirect (SEC-94).
        return Answers.empty(.seeOther, call, adding: [HTTPField(name: .location, value: location)])
    }

    /// `POST /v1/backchannel-logout/{provider}`: authenticated by the logout token's signature.
    @Sendable func backchannelLogout(_ call: Call) async throws(BrokerProblem) -> Answer {
        let provider = try provider(of: call)
        // Ignore all fields except `logout_token`, because providers add fields of their own.
        var form = try form(call, for: FormNames(exact: ["logout_token"]))
        let token = form.visible("logout_token", required: true, maximum: 16_384)
        try form.finish(ignoringUnknown: true)
        guard let token else { throw BrokerProblem(.invalidRequest) }
        try await useCases.backchannelLogout.receive(provider: provider, token: Secret(token), charge: charge(call))
        return Answers.empty(.ok, call)
    }

    /// Throws `provider_not_found` if the path names an unknown provider.
    @Sendable func hasProvider(_ call: Call) async throws(BrokerProblem) -> HeldBodies.Owner? {
        _ = try provider(of: call)
        return nil
    }

    private func provider(of call: Call) throws(BrokerProblem) -> ProviderName {
        let provider: ProviderName = try call.name(orElse: .providerNotFound)
        guard useCases.profiles.contains(where: { $0.name == provider }) else { throw BrokerProblem(.providerNotFound) }
        return provider
    }
}
