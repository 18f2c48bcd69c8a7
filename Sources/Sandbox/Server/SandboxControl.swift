/// The actions of the control API, for tests in the same process.
package struct SandboxControl: Sendable {
    let state: SandboxState

    /// An error for a fault or a provider that does not exist.
    package struct Unknown: Error {
        /// The unknown name.
        package let name: String
    }

    /// Adds a fault, which replaces a fault with the same provider, endpoint, name and match.
    package func place(_ fault: Fault) throws(Unknown) {
        guard FaultName.isKnown(fault.name) else { throw Unknown(name: fault.name) }
        guard fault.provider == "*" || Catalogue.named(fault.provider) != nil else {
            throw Unknown(name: fault.provider)
        }
        state.with { storage in
            storage.faults.removeAll {
                $0.provider == fault.provider && $0.endpoint == fault.endpoint && $0.name == fault.name
                    && $0.match == fault.match
            }
            storage.faults.append(fault)
        }
    }

    /// Removes the faults of a provider; with nil, removes all faults.
    package func clearFaults(provider: String? = nil) {
        state.with { $0.faults.removeAll { provider == nil || $0.provider == provider } }
    }

    /// The faults that are still active.
    package var faults: [Fault] { state.with { $0.faults } }

    /// Returns the requests that were received, oldest first.
    package func requests(provider: String? = nil, endpoint: String? = nil) -> [RecordedRequest] {
        state.with { $0.records.all }.filter {
            (provider == nil || $0.provider == provider) && (endpoint == nil || $0.endpoint == endpoint)
        }
    }

    /// Deletes the records and the counts.
    package func clearRequests() {
        state.with { storage in
            storage.records.clear()
            storage.counts = [:]
        }
    }

    /// Returns the number of times that an endpoint was called.
    package func count(_ provider: String, _ endpoint: String) -> Int {
        state.with { $0.counts["\(provider)/\(endpoint)"] ?? 0 }
    }

    /// Sets members of a user.
    package func set(user: String, _ json: JSON) {
        state.with { $0.users[user] = ($0.users[user] ?? [:]).merging(json) }
    }

    /// Registers a client: `{secret, auth, redirect_uris, jwks}`.
    package func set(client id: String, of provider: String, _ json: JSON) {
        _ = state.client(id, at: provider)
        let client = SandboxClient(id: id, json: json)
        state.with { $0.clients[provider, default: [:]][id] = client }
    }

    /// Sets members of a provider's settings.
    package func set(settings json: JSON, of provider: String) {
        state.with { storage in
            var known = storage.settings[provider] ?? [:]
            for member in json.members ?? [] { known[member.name] = member.value }
            storage.settings[provider] = known
        }
    }

    /// Moves the sandbox's clock.
    package func advanceClock(seconds: Double) { state.with { $0.clockOffset += seconds } }

    /// Makes new signing keys; the old keys stay published only with `keepOld`.
    package func rotateKeys(_ provider: String, keepOld: Bool = false) {
        state.keys.rotate(provider, keepOld: keepOld)
    }

    /// Ends grants at the provider without notifying their clients; returns the number of ended grants.
    @discardableResult
    package func revokeGrants(provider: String? = nil, user: String? = nil) -> Int {
        state.with { storage in
            var ended = 0
            for grant in storage.grants.values
            where !grant.revoked && (provider == nil || grant.provider == provider)
                && (user == nil || grant.user == user)
            {
                storage.revoke(grant: grant.id)
                ended += 1
            }
            return ended
        }
    }

    /// The id and the PEM text of the private key that may sign for `web-jwt` and Apple's client secret.
    package var clientKey: (pem: String, id: String) {
        (state.clientKey.pem, state.clientKey.id)
    }

    /// Signs and posts a logout token, as `POST /_sandbox/backchannel-logout` does.
    package func backchannelLogout(_ json: JSON) async throws -> JSON {
        try await BackchannelLogout(state: state).send(json)
    }

    /// Signs an id_token in the form of a native SDK, as `POST /_sandbox/native-id-token/{provider}` does.
    package func nativeIDToken(_ json: JSON, of provider: String) async throws -> String {
        try await NativeIDToken(state: state).issue(json, provider: provider)
    }

    /// Issues a legacy token of Clover, valid for ten years, as `POST /_sandbox/legacy-token/clover` does.
    package func legacyToken(clientID: String, user: String = "ana") -> String {
        let grant = Grant(
            id: Random.token("g-", bytes: 12), provider: "clover", clientID: clientID, user: user, scope: "",
            nonce: nil, authenticatedAt: state.now, sid: Random.token("sid-"), extras: [:])
        let token = Random.token("v1-")
        let access = AccessToken(grant: grant.id, expiresAt: state.now + 315_360_000)
        state.with { storage in
            storage.grants[grant.id] = grant
            storage.accessTokens[token] = access
        }
        return token
    }

    /// Restores the initial state, including the seed file, but keeps the signing keys and the base URLs.
    package func reset() {
        state.with { storage in
            let (baseURL, mutualTLSURL) = (storage.baseURL, storage.mutualTLSURL)
            storage = Storage()
            storage.baseURL = baseURL
            storage.mutualTLSURL = mutualTLSURL
        }
        state.seed?.apply(to: self)
    }
}
