import Broker
import BrokerProviders

/// Refuses cookies of an old system that have the name of one of the broker's own cookies.
enum MoveInRules {
    static func check(_ draft: ConfigurationDraft, _ context: ConfigContext) {
        let name = draft.session.cookieName
        let plain = name.hasPrefix("__Host-") ? String(name.dropFirst(7)) : name
        let own = Set([name, plain].flatMap { base in ["", "-login", "-pass", "-web"].map { base + $0 } })
            .union(["coatcheck-handover", "__Host-coatcheck-handover"])
        for client in draft.providers.flatMap(\.clients) {
            guard let cookie = client.settings.profile.moveIn?.cookie, own.contains(cookie) else { continue }
            context.report(
                "is the name of one of the broker's own cookies", path: "\(client.location.path).move_in.cookie",
                line: nil)
        }
    }
}
