import Broker
import BrokerWire
import HTTPTypes

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

        /// The address of the original request, from `X-Forwarded-Proto`, `X-Forwarded-Host` and `X-Forwarded-Uri`.
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

        /// The address of the original request from `X-Original-URL`, which contains the whole address.
        ///
        /// Throws if another program could find a different host, or a different end of the path, in the field.
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
        BrokerProblem(.invalidRequest, with: .fields([FieldFault(field, .malformed)]))
    }

    /// Returns the method and address that a proof must name; nil if the proxy's fields are incomplete.
    ///
    /// Nil has the same effect as a missing proof. If `accepted` rejects the address's origin, no proof matches the result.
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
            throw BrokerProblem(.invalidRequest, with: .fields([FieldFault(field.name.rawName, .duplicate)]))
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
        throw BrokerProblem(.invalidRequest, with: .fields([FieldFault(name, .conflict)]))
    }
}
