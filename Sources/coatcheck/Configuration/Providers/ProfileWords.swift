import Broker
import BrokerProviders

/// Describes the profiles of clients, as `coatcheck check` prints them.
enum ProfileWords {
    /// Returns a line for each client with a profile.
    static func lines(_ configuration: Configuration) -> [String] {
        configuration.providers.flatMap(\.clients).compactMap { client in
            let wire = client.settings.wire
            guard let profile = wire.profile else { return nil }
            let algorithms = wire.idToken.algorithms.map(\.rawValue).joined(separator: ", ")
            return "\(client.location.path).profile: \(profile.rawValue): par required, pkce required, auth "
                + "\(client.settings.authentication.method), sender_constrained \(wire.senderConstraint.rawValue), "
                + "assertion.audience issuer, id_token \(algorithms) with \(wire.idToken.leeway.components.seconds) s "
                + "of leeway, iss in every callback"
        }
    }
}
