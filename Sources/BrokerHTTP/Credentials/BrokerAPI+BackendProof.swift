import Broker
import HTTPTypes

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

/// The request that a proxy asks about (`backends.NAME.original_request`): its method and address, as the proxy says them.
///
/// It says who may use a proof, so nothing of it is guessed: two sorts of fields that differ, or one field twice, are 400.
enum OriginalRequest {
    private static func known(_ name: StaticString) -> HTTPField.Name { HTTPField.Name(name.description) ?? .server }

    private static let method = known("X-Original-Method")
    private static let url = known("X-Original-URL")
    private static let forwardedMethod = known("X-Forwarded-Method")
    private static let forwardedProto = known("X-Forwarded-Proto")
    private static let forwardedHost = known("X-Forwarded-Host")
    private static let forwardedURI = known("X-Forwarded-Uri")

    /// Returns what a proof has to be about; nil where the proxy does not say it whole, which is as no proof.
    ///
    /// An address at an origin that is not `accepted` is nobody's.
    static func target(
        in fields: HTTPFields, accepted: (ProofAddress) -> Bool
    ) throws(BrokerProblem) -> ProofTarget? {
        let originals = (try one(method, fields), try one(url, fields))
        let parts = (try one(forwardedProto, fields), try one(forwardedHost, fields), try one(forwardedURI, fields))
        let forwarded = (
            try one(forwardedMethod, fields),
            parts.0.flatMap { scheme in parts.1.flatMap { host in parts.2.map { "\(scheme)://\(host)\($0)" } } }
        )
        let method = try same(originals.0, forwarded.0, Self.method)
        let text = try same(originals.1, forwarded.1, url)
        guard let method, let text else { return nil }
        let address = ProofAddress(text).flatMap { accepted($0) ? $0 : nil }
        return ProofTarget(method: method, address: .foreign(address))
    }

    private static func one(_ name: HTTPField.Name, _ fields: HTTPFields) throws(BrokerProblem) -> String? {
        let values = fields[values: name]
        guard values.count <= 1 else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault(name.rawName, .duplicate)])
        }
        return values.first
    }

    private static func same(
        _ original: String?, _ forwarded: String?, _ name: HTTPField.Name
    ) throws(BrokerProblem) -> String? {
        guard let original, let forwarded, original != forwarded else { return original ?? forwarded }
        throw BrokerProblem(.invalidRequest, errors: [FieldFault(name.rawName, .conflict)])
    }
}
