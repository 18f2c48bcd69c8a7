import Broker
import BrokerProviders

/// Reads the source of a provider's identity (`identity`), and a JSON pointer for each member.
enum IdentityReader {
    private static let keys: Set<String> = ["source", "url", "method", "subject", "emails_url", "name", "email"]

    static func read(_ section: ConfigSection, into identity: inout IdentitySettings) {
        identity.source = section.choice("source", among: [.idToken, .userinfo, .api]) ?? identity.source
        identity.url = section.endpoint("url", withQuery: true) ?? identity.url
        identity.emailsURL = section.endpoint("emails_url", withQuery: true) ?? identity.emailsURL
        identity.subject = section.pointer("subject") ?? identity.subject
        if let method = section.text("method", limit: 4) {
            if ["GET", "POST"].contains(method) {
                identity.method = method
            } else {
                section.report("method", "has to be `GET` or `POST`")
            }
        }
        // If the section names any member of the identity, these members replace all others: the preset's, and the standard
        // `name` and `email`.
        let further = section.keys.filter { !keys.contains($0) && isMember($0) }
        let members = (["name", "email"] + further).compactMap { name in
            section.pointer(name).map { (name: name, pointer: $0) }
        }
        if !members.isEmpty { identity.claims = members }
        if identity.source == .api, identity.url == nil, section.has("source") {
            section.report(nil, "needs `url` when its source is `api`")
        }
    }

    private static func isMember(_ name: String) -> Bool {
        (1...64).contains(name.utf8.count)
            && name.utf8.allSatisfy { (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x5F }
    }
}
