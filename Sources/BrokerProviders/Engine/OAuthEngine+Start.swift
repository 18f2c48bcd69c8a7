import Broker

extension OAuthEngine {
    /// Starts a login: pushed where the provider or the operator wants it (RFC 9126), else by a plain URL.
    func start(_ request: AuthorizationRequest, openID: Bool) async throws(ProviderFailure) -> AuthorizationStart {
        let client = try client(request.client)
        let metadata = try await metadata()
        guard let endpoint = metadata.authorization else {
            throw .unusable(detail: "no authorization endpoint is known")
        }
        var pairs = AuthorizationURL.parameters(request, client: client, openID: openID)
        let mode = client.wire.pushedAuthorization
        if mode != .off || metadata.requiresPushedAuthorization {
            let isRequired = mode == .required || metadata.requiresPushedAuthorization
            do throws(ProviderFailure) {
                let reference = try await push(pairs, client: client, metadata: metadata)
                pairs = [("client_id", client.settings.clientID), ("request_uri", reference)]
            } catch {
                // Never a plain request where a pushed one is demanded (SEC-10).
                if isRequired { throw error }
            }
        }
        guard let url = endpoint.adding(pairs) else {
            throw .unusable(detail: "the authorization endpoint's own query repeats a parameter")
        }
        return AuthorizationStart(url: Secret(url), issuer: expectation(metadata))
    }

    /// What the callback's `iss` has to be; a multi-tenant issuer has no one value.
    func expectation(_ metadata: Metadata) -> IssuerExpectation {
        guard IssuerTemplate.issuer(of: settings) == settings.issuer ?? "" else {
            return IssuerExpectation(issuer: nil, demanded: false)
        }
        return IssuerExpectation(
            issuer: settings.issuer, demanded: settings.issuer != nil && metadata.promisesIssuer)
    }

    private func push(
        _ pairs: [(name: String, value: String)], client: EngineClient, metadata: Metadata
    ) async throws(ProviderFailure) -> String {
        guard let endpoint = metadata.pushedAuthorization else { throw .unusable(detail: "no PAR endpoint is known") }
        let plain = TokenRequestSettings(headers: client.wire.tokenRequest.headers)
        let answer = try await post(pairs, to: endpoint, client: client, settings: plain)
        try answer.requireUsable(at: clock.now())
        guard answer.isSuccess, let reference = answer.object?["request_uri"]?.string,
            (1...1024).contains(reference.utf8.count), reference.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            let code = answer.object.flatMap { OAuthErrorParser.code(in: $0, isFailure: !answer.isSuccess) }
            throw .unusable(detail: "PAR: \(answer.summary), \(code ?? "no request_uri")")
        }
        return reference
    }
}
