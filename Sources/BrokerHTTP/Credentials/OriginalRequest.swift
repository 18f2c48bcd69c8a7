import Broker
import HTTPTypes

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
