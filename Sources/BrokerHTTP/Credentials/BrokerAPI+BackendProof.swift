import Broker

extension BrokerAPI {
    /// Returns a check that throws unless the caller is a backend with the permission.
    func isBackend(for permission: BackendPermission) -> Route.Check {
        { [self] call throws(BrokerProblem) in
            _ = try backend(call, for: permission)
            return nil
        }
    }

    /// Returns a check like `isBackend`, for routes that also accept the credential in their form.
    ///
    /// If no header field contains a credential and the body is a form, this check passes; the handler checks the form.
    func isBackendOrWillBe(for permission: BackendPermission) -> Route.Check {
        { [self] call throws(BrokerProblem) in
            let fields = call.fields
            let mayComeInForm =
                fields.backends.isEmpty && fields.authorization.isEmpty && fields.hasBody
                && MediaType.form.fault(in: fields) == nil
            if mayComeInForm, try provenBackend(call) == nil { return nil }
            _ = try backend(call, for: permission)
            return nil
        }
    }

    /// Returns the calling backend, from a header field or the form's `client_id` and `client_secret` (RFC 6749 section
    /// 2.3.1).
    ///
    /// Two credentials in one request are refused, and so is a credential with another backend's name.
    func backend(
        _ call: Call, for permission: BackendPermission, in form: inout RequestForm
    ) throws(BrokerProblem) -> ProvenBackend {
        let name = form.optional("client_id", maximum: 256)
        guard let secret = form.optional("client_secret", maximum: 512) else {
            let found = try backend(call, for: permission)
            if let name, !name.hasBytes(of: found.configuration.name.text) { form.fault("client_id", .notAllowed) }
            return found
        }
        guard call.fields.backends.isEmpty, call.fields.authorization.isEmpty else {
            throw BrokerProblem(
                .invalidRequest, detail: "The request has two credentials, in a header field and in `client_secret`.",
                privateDetail: "client_secret next to a credential in a field",
                with: .fields([FieldFault("client_secret", .conflict)]))
        }
        guard let name else {
            throw BrokerProblem(
                .invalidRequest, detail: "`client_secret` needs `client_id`, the backend's name.",
                with: .fields([FieldFault("client_id", .required)]))
        }
        guard let match = backend(of: Secret(secret), named: name) else {
            try charge(call).takeWrongToken()
            throw BrokerProblem(.backendUnauthorized)
        }
        return try admitted(ProvenBackend(configuration: match, usedAuthorization: false), for: permission)
    }

    /// Returns the calling backend.
    ///
    /// Throws `backend_unauthorized` if the credential is missing or wrong, and `backend_not_allowed` if the backend lacks
    /// the permission.
    func backend(_ call: Call, for permission: BackendPermission) throws(BrokerProblem) -> ProvenBackend {
        let found = try provenBackend(call)
        guard let found else {
            // Only a credential can be a guess, so a request without a credential is not charged.
            guard call.fields.backends.isEmpty, call.fields.authorization.isEmpty else {
                try charge(call).takeWrongToken()
                throw BrokerProblem(.backendUnauthorized)
            }
            throw BrokerProblem(.backendUnauthorized)
        }
        return try admitted(found, for: permission)
    }

    private func admitted(
        _ found: ProvenBackend, for permission: BackendPermission
    ) throws(BrokerProblem) -> ProvenBackend {
        RequestScope.current?.span?.believeCaller()
        guard found.configuration.may.contains(permission) else { throw BrokerProblem(.backendNotAllowed) }
        return found
    }

    private func provenBackend(_ call: Call) throws(BrokerProblem) -> ProvenBackend? {
        guard call.fields.backends.count <= 1, call.fields.authorization.count <= 1 else {
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault("Authorization", .duplicate)]))
        }
        if let credential = call.fields.backends.first {
            // If the credential in `X-Coatcheck-Backend` is wrong, the request is refused, even if its `Authorization` or peer
            // address would identify a backend.
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

    /// Returns the backend with a credential.
    ///
    /// The search compares every stored digest, so that its duration does not reveal a near match (SEC-53).
    private func backend(of credential: Secret, named name: String?) -> BackendConfiguration? {
        let digest = digest(credential.bytes())
        var found: Int?
        // Search by index, because copying each backend would update many reference counts.
        for index in configuration.backends.indices where configuration.backends[index].digest == digest {
            found = index
        }
        guard let found else { return nil }
        let backend = configuration.backends[found]
        if let name, backend.name.text != name { return nil }
        return backend
    }
}
