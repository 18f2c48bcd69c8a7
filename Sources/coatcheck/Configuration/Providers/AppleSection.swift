import Broker

/// Is what Apple's client secret is made of.
struct AppleSection: Sendable {
    let teamID: String
    let keyID: String
    let pem: Secret

    init?(_ section: ConfigSection) {
        let teamID = section.requiredText("team_id", limit: 32)
        let keyID = section.requiredText("key_id", limit: 32)
        section.require("key")
        let key = section.section("key")
        if section.has("key") { key.require("file") }
        guard let pem = key.privateKeyFile("file"), let teamID, let keyID else { return nil }
        self.teamID = teamID
        self.keyID = keyID
        self.pem = pem
    }
}
