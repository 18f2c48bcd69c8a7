import Broker

/// A backend that has proved itself.
struct ProvenBackend: Sendable {
    let configuration: BackendConfiguration
    /// Whether its proof was the `Authorization` field, which then holds no session.
    let usedAuthorization: Bool
}

extension BrokerAPI {
    /// Throws what a caller is refused with who is no backend, or none that may ask this.
    func isBackend(for permission: BackendPermission) -> Route.Check {
        { [self] call throws(BrokerProblem) in _ = try backend(call, for: permission) }
    }

    /// Returns the backend that calls; throws `backend_unauthorized` when none proved itself, and
    /// `backend_not_allowed` when it may not ask this.
    func backend(_ call: Call, for permission: BackendPermission) throws(BrokerProblem) -> ProvenBackend {
        let found = try provenBackend(call)
        guard let found else {
            // A caller without any credential guesses at nothing.
            guard call.fields.backends.isEmpty, call.fields.authorization.isEmpty else {
                try charge(call).takeWrongToken()
                throw BrokerProblem(.backendUnauthorized)
            }
            throw BrokerProblem(.backendUnauthorized)
        }
        RequestScope.current?.span?.believeCaller()
        guard found.configuration.may.contains(permission) else { throw BrokerProblem(.backendNotAllowed) }
        return found
    }

    private func provenBackend(_ call: Call) throws(BrokerProblem) -> ProvenBackend? {
        guard call.fields.backends.count <= 1, call.fields.authorization.count <= 1 else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("Authorization", .duplicate)])
        }
        if let credential = call.fields.backends.first {
            // A wrong credential is never made good by another proof.
            return backend(of: Secret(credential), named: nil)
                .map { ProvenBackend(configuration: $0, usedAuthorization: false) }
        }
        if let value = call.fields.authorization.first {
            let match: BackendConfiguration? =
                switch Authorization(value) {
                case .bearer(let credential): backend(of: credential, named: nil)
                case .basic(let name, let credential): backend(of: credential, named: name)
                case .other: nil
                }
            if let match { return ProvenBackend(configuration: match, usedAuthorization: true) }
        }
        guard rules.takesPeersAsBackends, let peer = call.connection?.address,
            let match = configuration.backends.first(where: { $0.peers.contains { $0.contains(peer) } })
        else { return nil }
        return ProvenBackend(configuration: match, usedAuthorization: false)
    }

    /// Compares with every stored digest, so that the time says nothing about which one came close (SEC-53).
    private func backend(of credential: Secret, named name: String?) -> BackendConfiguration? {
        let digest = digest(credential.bytes())
        var found: BackendConfiguration?
        for backend in configuration.backends where backend.digest == digest { found = backend }
        if let name, found?.name.text != name { return nil }
        return found
    }
}
