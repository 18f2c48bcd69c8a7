import Broker
import BrokerProviders

/// The meaning of a client's binding for its apps, in the words of `coatcheck check`.
enum BindingWords {
    /// Returns a line for each client whose mode is not `off`.
    static func lines(_ configuration: Configuration) -> [String] {
        var lines: [String] = []
        for provider in configuration.providers {
            for client in provider.clients.map(\.settings.profile) {
                guard let words = words(client.binding) else { continue }
                lines.append("providers.\(provider.name).clients.\(client.name).binding: \(words)")
            }
        }
        return lines
    }

    private static func words(_ binding: BindingPolicy) -> String? {
        switch binding.mode {
        case .off: return nil
        case .observe:
            return
                "observe: refuses nobody and binds no session; coatcheck_proofs_total counts what `enforce` would answer"
        case .enforce:
            let evidence =
                switch binding.evidence {
                case .pass:
                    "a pass of \(binding.passLifetime.components.seconds) s, which a proof by the device's key renews"
                case .proof: "a proof by the device's key"
                }
            return
                "enforce: a sign-in without a proof is refused, so versions of the app that make none cannot sign in; its "
                + "sessions need \(evidence) with each request; sessions of before stay unbound until they end"
        }
    }
}
