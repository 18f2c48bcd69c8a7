import Broker
import BrokerProviders

/// The certificates that a configuration has its clients and upstreams show.
enum Certificates {
    /// One of them, with its place in the file.
    struct Entry {
        let path: String
        let identity: ClientIdentity
    }

    /// Returns all of them, in the file's order.
    static func all(_ configuration: Configuration) -> [Entry] {
        let clients = configuration.providers.flatMap(\.clients).compactMap { client in
            client.settings.wire.connection.identity.map { Entry(path: client.location.path, identity: $0) }
        }
        let upstreams = configuration.upstreams.compactMap { upstream in
            upstream.connection.identity.map { Entry(path: upstream.path, identity: $0) }
        }
        return clients + upstreams
    }

    /// Returns why one of them would be refused at a time, in a sentence for the operator; nil where all are valid.
    static func firstFault(_ configuration: Configuration, at now: WallTime) -> String? {
        for entry in all(configuration) {
            if let fault = entry.identity.current.fault(at: now) {
                return "\(entry.path).tls: the certificate \(fault)"
            }
        }
        return nil
    }
}
