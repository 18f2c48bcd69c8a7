import Broker

/// Fetches a provider's metadata from the places that its issuer names (OpenID Connect Discovery 1.0, RFC 8414).
struct MetadataFetcher: Sendable {
    let settings: ProviderSettings
    let caller: ProviderCaller
    let clock: BrokerClock
    /// The `issuer` that the document has to hold, byte for byte: the configured one, or Microsoft's template.
    let expectedIssuer: String

    /// Fetches and checks; the configuration's endpoints win over discovered ones.
    func fetch() async -> Result<(value: Metadata, lifetime: Duration), ProviderFailure> {
        guard let issuer = settings.issuer, let url = EndpointURL(issuer), url.query == nil,
            let openID = Self.openIDLocation(url), let oauth = Self.oauthLocation(url)
        else {
            return .failure(.notSent(detail: "no issuer to discover"))
        }
        let isOpenID = settings.service.kind != .oauth2
        var primary: (Metadata, Duration)
        do throws(ProviderFailure) {
            primary = try await document(at: isOpenID ? openID : oauth, from: url)
        } catch {
            // RFC 8414 section 5: clients of either kind find servers that publish only the other document.
            guard case .unusable = error, let other = try? await document(at: isOpenID ? oauth : openID, from: url)
            else { return .failure(error) }
            primary = other
        }
        if isOpenID, primary.0.revocation == nil,
            let second = try? await document(at: oauth, from: url)
        {
            primary.0.fill(from: second.0)
        }
        primary.0.apply(settings.endpoints)
        return .success((primary.0, primary.1))
    }

    /// One document; `unusable` when it is no metadata or another issuer's.
    ///
    /// An HTML page with status 200 is no metadata.
    private func document(
        at location: EndpointURL, from issuer: EndpointURL
    ) async throws(ProviderFailure) -> (Metadata, Duration) {
        let answer = try await caller.send(.get(location), by: caller.ownLimit)
        try answer.requireUsable(at: clock.now())
        guard answer.status == 200, let object = answer.object else {
            throw .unusable(detail: "metadata: \(answer.summary), no JSON object")
        }
        guard object["issuer"]?.string?.hasBytes(of: expectedIssuer) == true else {
            throw .unusable(detail: "metadata: another issuer's")
        }
        let metadata = try Metadata(document: object, issuer: settings.issuer ?? issuer.text) { endpoint in
            Self.allows(endpoint, from: issuer, allowPrivate: settings.allowPrivate || caller.http.allowsPrivate)
        }
        return (metadata, answer.lifetime)
    }

    /// An issuer out on the internet may not point us at ourselves or into our network (SEC-24).
    static func allows(_ endpoint: EndpointURL, from issuer: EndpointURL, allowPrivate: Bool) -> Bool {
        if issuer.isLoopback || allowPrivate { return true }
        let address = endpoint.base.host.flatMap { IPAddress(urlHost: $0) }
        return !endpoint.isLoopback && address?.isPublic != false
    }

    static func openIDLocation(_ issuer: EndpointURL) -> EndpointURL? {
        EndpointURL(issuer.withoutSlash.text + "/.well-known/openid-configuration")
    }

    /// RFC 8414 section 3.1: the well-known part goes between host and path.
    static func oauthLocation(_ issuer: EndpointURL) -> EndpointURL? {
        let path = issuer.base.path == "/" ? "" : issuer.base.path
        return EndpointURL(
            issuer.base.text.dropLast(issuer.base.path.count) + "/.well-known/oauth-authorization-server"
                + (path.hasSuffix("/") ? String(path.dropLast()) : path))
    }
}
