import Broker
import BrokerProviders

/// The certificates that a configuration uses for its clients and upstreams.
enum Certificates {
    /// Returns all certificates: those of clients, then those of upstreams.
    static func all(_ configuration: Configuration) -> [ClientIdentity] {
        configuration.providers.flatMap(\.clients).compactMap(\.settings.wire.connection.identity)
            + configuration.upstreams.compactMap(\.connection.identity)
    }

    /// Returns the first certificate that is expired or not yet valid at a time, as a problem of its setting; nil if all are
    /// valid.
    static func firstFault(_ configuration: Configuration, at now: WallTime) -> ConfigProblem? {
        for identity in all(configuration) {
            guard let fault = identity.current.fault(at: now) else { continue }
            return ConfigProblem(
                line: configuration.lines.line(of: identity.setting), path: identity.setting,
                message: "names a file with a certificate that \(fault)", severity: .error)
        }
        return nil
    }
}
