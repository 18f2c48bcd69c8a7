import Broker
import BrokerProviders

/// Reads the rules for accepting an id_token (`id_token`).
enum IDTokenReader {
    static func read(_ section: ConfigSection, into settings: inout IDTokenSettings) {
        let algorithms = section.choices("algorithms", as: SignatureAlgorithm.self) { SignatureAlgorithm(name: $0) }
        if section.has("algorithms"), algorithms.isEmpty { section.report("algorithms", "accepts nothing") }
        if !algorithms.isEmpty {
            settings.algorithms = SignatureAlgorithm.allCases.filter(algorithms.contains)
        }
        settings.leeway = section.duration("leeway", default: settings.leeway, in: .zero ... .seconds(120))
        settings.maximumAge = section.duration(
            "maximum_age", default: settings.maximumAge, in: .seconds(60) ... .seconds(86_400))
        settings.trustedAudiences = section.words("trusted_audiences") ?? settings.trustedAudiences
        settings.issuer = section.endpoint("issuer")?.text ?? settings.issuer
        settings.issuerTemplate = section.text("issuer_template", limit: 2048) ?? settings.issuerTemplate
        settings.tenants = section.words("tenants") ?? settings.tenants
    }
}
