import Broker
import BrokerWire
import HTTPTypes

/// A backend whose credential or address was verified.
struct ProvenBackend: Sendable {
    let configuration: BackendConfiguration
    /// Whether the backend's credential was in the `Authorization` field, which then contains no session token.
    let usedAuthorization: Bool
}

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
                errors: [FieldFault("client_secret", .conflict)])
        }
        guard let name else {
            throw BrokerProblem(
                .invalidRequest, detail: "`client_secret` needs `client_id`, the backend's name.",
                errors: [FieldFault("client_id", .required)])
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
            // Only a credential can be a guess, so a request that lacks one is free of charge.
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
            throw BrokerProblem(.invalidRequest, errors: [FieldFault("Authorization", .duplicate)])
        }
        if let credential = call.fields.backends.first {
            // If this credential is wrong, the request is refused even if its `Authorization` or peer address would identify a
            // backend.
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

/// The method and address of the original request, as the proxy reports them (`backends.NAME.original_request`).
///
/// Method and address decide which request a proof is valid for, so the broker must not guess them. It answers 400 if the
/// `X-Original-*` fields differ from the `X-Forwarded-*` fields, or if one field occurs twice.
enum OriginalRequest {
    private struct Parts {
        var method: String?
        var url: String?
        var forwardedMethod: String?
        var scheme: String?
        var host: String?
        var uri: String?

        /// The address of the original request, from three forwarded fields.
        ///
        /// Throws if another program could split the host or the target differently.
        func forwardedURL() throws(BrokerProblem) -> String? {
            guard let scheme, let host, let uri else { return nil }
            guard !scheme.isEmpty, scheme.utf8.allSatisfy({ (0x41...0x5A).contains($0 & 0xDF) }) else {
                throw OriginalRequest.malformed("X-Forwarded-Proto")
            }
            guard Authority.isWellFormed(host.utf8) else { throw OriginalRequest.malformed("X-Forwarded-Host") }
            guard uri.utf8.first == UInt8(ascii: "/"), !uri.utf8.contains(UInt8(ascii: "#")) else {
                throw OriginalRequest.malformed("X-Forwarded-Uri")
            }
            return "\(scheme)://\(host)\(uri)"
        }

        /// The address of the original request, from the one field that contains all of it.
        ///
        /// Throws if another program could find a different host or a different end of the path.
        func originalURL() throws(BrokerProblem) -> String? {
            guard let url else { return nil }
            // Only a host may be between `://` and the path, as in `X-Forwarded-Host`.
            let rest = url.firstRange(of: "://").map { url[$0.upperBound...] } ?? ""
            let path = rest.firstIndex(of: "/") ?? rest.endIndex
            guard path < rest.endIndex, Authority.isWellFormed(rest[..<path].utf8),
                !rest.utf8.contains(UInt8(ascii: "#"))
            else { throw OriginalRequest.malformed("X-Original-URL") }
            return url
        }
    }

    fileprivate static func malformed(_ field: String) -> BrokerProblem {
        BrokerProblem(.invalidRequest, errors: [FieldFault(field, .malformed)])
    }

    /// Returns the method and address that a proof must name; nil if the proxy's fields are incomplete.
    ///
    /// Nil has the same effect as a missing proof. If `accepted` rejects the address's origin, no proof matches.
    static func target(
        in fields: HTTPFields, accepted: (ProofAddress) -> Bool
    ) throws(BrokerProblem) -> ProofTarget? {
        let parts = try parts(in: fields)
        let method = try same(parts.method, parts.forwardedMethod, "X-Original-Method")
        let text = try same(try parts.originalURL(), try parts.forwardedURL(), "X-Original-URL")
        guard let method, let text else { return nil }
        let address = ProofAddress(text).flatMap { accepted($0) ? $0 : nil }
        return ProofTarget(method: method, address: .foreign(address))
    }

    /// Reads the proxy's fields in one pass.
    private static func parts(in fields: HTTPFields) throws(BrokerProblem) -> Parts {
        var parts = Parts()
        for field in fields {
            let name = field.name.canonicalName
            // The first byte alone rules out most fields.
            guard name.utf8.first == UInt8(ascii: "x") else { continue }
            switch name {
            case "x-original-method": try set(&parts.method, field)
            case "x-original-url": try set(&parts.url, field)
            case "x-forwarded-method": try set(&parts.forwardedMethod, field)
            case "x-forwarded-proto": try set(&parts.scheme, field)
            case "x-forwarded-host": try set(&parts.host, field)
            case "x-forwarded-uri": try set(&parts.uri, field)
            default: break
            }
        }
        return parts
    }

    private static func set(_ part: inout String?, _ field: HTTPField) throws(BrokerProblem) {
        guard part == nil else {
            throw BrokerProblem(.invalidRequest, errors: [FieldFault(field.name.rawName, .duplicate)])
        }
        part = field.value
    }

    private static func same(
        _ original: String?, _ forwarded: String?, _ name: String
    ) throws(BrokerProblem) -> String? {
        // Compare bytes, because two different spellings can be equal as a `String`.
        guard let original, let forwarded, !original.utf8.elementsEqual(forwarded.utf8) else {
            return original ?? forwarded
        }
        throw BrokerProblem(.invalidRequest, errors: [FieldFault(name, .conflict)])
    }
}
