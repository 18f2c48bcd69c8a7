import Broker

/// Is the key of a client that proves itself by `private_key_jwt`.
struct PrivateKeySection: Sendable {
    enum Algorithm: String, Sendable, CaseIterable { case rs256 = "RS256", es256 = "ES256", ps256 = "PS256", edDSA = "EdDSA" }

    let pem: Secret
    let keyID: String?
    let algorithm: Algorithm

    init?(_ section: ConfigSection) {
        keyID = section.text("key_id", limit: 256)
        algorithm = section.choice("algorithm") ?? .es256
        section.require("file")
        guard let pem = section.privateKeyFile("file") else { return nil }
        self.pem = pem
    }
}
