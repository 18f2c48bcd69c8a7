import Broker

/// Refuses a provider's settings if they can never work.
enum SettingsCheck {
    static func run(_ settings: ProviderSettings) throws(CatalogueFailure) {
        func fail(_ text: String) -> CatalogueFailure { CatalogueFailure("providers.\(settings.name): \(text)") }
        guard !settings.clients.isEmpty else { throw fail("clients is empty") }
        if settings.endpoints.revocation != nil, settings.endpoints.revocation(of: "id") == nil {
            throw fail("endpoints.revocation is not an https URL (http is for loopback)")
        }
        if let issuer = settings.issuer {
            guard let url = EndpointURL(issuer), url.query == nil else {
                throw fail("issuer is not an https URL without query (http is for loopback)")
            }
        }
        if let issuer = settings.callbackIssuer, !IssuerExpectation.isPattern(issuer) {
            throw fail("callback_issuer has more than one segment in braces")
        }
        if settings.discovery, settings.issuer == nil { throw fail("discovery needs an issuer") }
        for client in settings.clients {
            let wire = client.wire
            guard !client.clientID.isEmpty || settings.service.kind == .zephr else {
                throw fail("clients.\(client.profile.name).client_id is empty")
            }
            guard !wire.idToken.algorithms.isEmpty else { throw fail("id_token.algorithms is empty") }
            guard wire.idToken.leeway <= .seconds(120) else { throw fail("id_token.leeway is over 120s") }
            for pair in wire.authorizationParameters where AuthorizationURL.reserved.contains(pair.name) {
                throw fail("authorization_parameters.\(pair.name) is set by the broker itself")
            }
            for name in SignInDemands.faults(in: wire.authorizationParameters) {
                throw fail("authorization_parameters.\(name) cannot be read")
            }
            for pointer in [wire.tokenResponse.path, wire.identity.subject].compactMap(\.self)
            where !pointer.hasPrefix("/") {
                throw fail("\(pointer) is not a JSON pointer: it begins with a slash")
            }
        }
    }
}
