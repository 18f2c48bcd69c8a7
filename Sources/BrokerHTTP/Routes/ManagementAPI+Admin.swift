import Broker
import BrokerWire
import HTTPTypes

extension ManagementAPI {
    /// `GET /admin/v1/sessions`: live or ended sessions by subject, provider or client.
    @Sendable func listSessions(_ call: Call) async throws(BrokerProblem) -> Answer {
        _ = try admin(call, for: .read)
        var query = try RequestQuery(parsing: call.query)
        var filter = AdminSessions.Filter()
        filter.subject = query.text("subject", maximum: 512)
        filter.provider = name("provider", &query)
        filter.client = name("client", &query)
        let isUnbound = isUnbound(&query)
        let state = state(&query)
        let cursor = query.text("cursor", maximum: 256)
        try query.finish()
        let page = try await sessions.list(filter, state, isUnbound: isUnbound, cursor: cursor)
        return Answers.json(.ok, AdminSessionListBody.bytes(page), call)
    }

    /// `DELETE /admin/v1/sessions/{handle}`: ends one session.
    @Sendable func endSession(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .end)
        try refuseQuery(of: call)
        guard let text = call.parameters.first, let handle = SessionHandle(String(text)) else {
            throw BrokerProblem(.notFound)
        }
        try await sessions.end(handle: handle, actor: token.name)
        return Answers.empty(.noContent, call)
    }

    /// `DELETE /admin/v1/subjects/{provider}/{subject}/sessions`: ends the sessions of a subject, which is percent-encoded.
    @Sendable func endSubject(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .end)
        try refuseQuery(of: call)
        let provider: ProviderName = try call.name(orElse: .providerNotFound)
        guard let raw = call.parameters.dropFirst().first, raw.utf8.count <= 1536,
            // In a path, `+` means a plus sign; only `%` starts an escape.
            let subject = FormPairs.decode(String(raw.map { $0 == "+" ? "%2B" : String($0) }.joined()).utf8),
            (1...512).contains(subject.utf8.count)
        else { throw BrokerProblem(.notFound) }
        return try await end(AdminSessions.Filter(provider: provider, subject: subject), token, call)
    }

    /// `DELETE /admin/v1/sessions?provider=&client=&binding=none&cursor=`: ends the sessions of a provider or one of its
    /// clients.
    ///
    /// With `binding=none`, each call ends a part of the sessions that belong to no key; `cursor` continues with the next part.
    @Sendable func endSessions(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .end)
        var query = try RequestQuery(parsing: call.query)
        var filter = AdminSessions.Filter()
        filter.provider = name("provider", &query)
        filter.client = name("client", &query)
        let isUnbound = isUnbound(&query)
        let cursor = isUnbound ? query.text("cursor", maximum: 256) : nil
        try query.finish()
        // A missing parameter must not end all sessions.
        guard filter.provider != nil else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("provider", .required)]))
        }
        guard isUnbound else { return try await end(filter, token, call) }
        let part = try await sessions.endUnbound(filter, cursor: cursor, actor: token.name)
        var writer = JSONWriter(capacity: 128)
        writer.object { writer in
            writer.member("ended", Int64(part.ended))
            writer.member("unreadable", Int64(part.unreadable))
            writer.member("next_cursor", part.nextCursor)
        }
        return Answers.json(.ok, writer.bytes, call)
    }

    /// Refuses any query, because a filter that is ignored would end more sessions than the operator names.
    private func refuseQuery(of call: Call) throws(BrokerProblem) {
        try RequestQuery(parsing: call.query).finish()
    }

    private func end(
        _ filter: AdminSessions.Filter, _ token: AdminToken, _ call: Call
    ) async throws(BrokerProblem) -> Answer {
        let ended = try await sessions.end(filter, actor: token.name)
        var writer = JSONWriter(capacity: 32)
        writer.object { $0.member("ended", Int64(ended)) }
        return Answers.json(.ok, writer.bytes, call)
    }

    /// `GET /admin/v1/providers`: the state of each provider's discovery, breaker and keys.
    @Sendable func listProviders(_ call: Call) async throws(BrokerProblem) -> Answer {
        _ = try admin(call, for: .read)
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.name("items")
            writer.array { writer in
                for provider in health.providers() {
                    writer.object { writer in
                        writer.member("name", provider.name.text)
                        writer.member("kind", provider.kind.rawValue)
                        for detail in provider.details { writer.member(detail.name, detail.value) }
                    }
                }
            }
        }
        return Answers.json(.ok, writer.bytes, call)
    }

    private func name<Name: ConfiguredName>(_ parameter: String, _ query: inout RequestQuery) -> Name? {
        guard let text = query.text(parameter, maximum: 63) else { return nil }
        guard let name = Name(text) else {
            query.fault(parameter, .malformed)
            return nil
        }
        return name
    }

    private func isUnbound(_ query: inout RequestQuery) -> Bool {
        guard let text = query.text("binding", maximum: 16) else { return false }
        if text != "none" { query.fault("binding", .malformed) }
        return true
    }

    private func state(_ query: inout RequestQuery) -> SessionState {
        guard let text = query.text("state", maximum: 16) else { return .live }
        guard let state = SessionState(rawValue: text) else {
            query.fault("state", .malformed)
            return .live
        }
        return state
    }

    /// Returns a check that throws unless the caller is an admin with this permission.
    func isAdmin(for permission: AdminPermission) -> Route.Check {
        { [self] call throws(BrokerProblem) in
            _ = try admin(call, for: permission)
            return nil
        }
    }

    /// Returns the admin token of the request.
    ///
    /// The paths under `/admin` exist only if an admin token is configured.
    func admin(_ call: Call, for permission: AdminPermission) throws(BrokerProblem) -> AdminToken {
        guard !configuration.adminTokens.isEmpty else { throw BrokerProblem(.notFound) }
        guard call.fields.authorization.count <= 1 else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("Authorization", .duplicate)]))
        }
        guard let value = call.fields.authorization.first else { throw BrokerProblem(.backendUnauthorized) }
        var found: AdminToken?
        if case .bearer(let secret) = Authorization(value) {
            let digest = digest(secret.bytes())
            // Compare with all tokens, so that the duration does not reveal a match.
            for token in configuration.adminTokens where token.digest == digest { found = token }
        }
        guard let found else {
            // Loopback addresses are charged too, because an attacker on this machine would use them as operators do.
            if let address = call.connection?.address, let wait = wrongTokens.take(address) {
                throw BrokerProblem(.rateLimited, retryAfter: wait)
            }
            throw BrokerProblem(.backendUnauthorized)
        }
        guard found.may.contains(permission) else { throw BrokerProblem(.backendNotAllowed) }
        return found
    }
}
