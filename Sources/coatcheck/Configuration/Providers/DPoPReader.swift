import Broker
import BrokerProviders

/// Reads the use of DPoP proofs at a provider (`dpop`).
enum DPoPReader {
    static func read(_ section: ConfigSection, into settings: inout DPoPSettings) {
        settings.par = section.choice("par") ?? settings.par
        settings.nonceBeforeSpending = section.choice("nonce_before_spending") ?? settings.nonceBeforeSpending
        settings.nonceAge = section.duration(
            "nonce_age", default: settings.nonceAge, in: .seconds(10) ... .seconds(3600))
    }
}
