import Broker
import BrokerHTTP
import BrokerVault
import HTTPTypes

/// The backends of the tests.
enum Backends {
    static let credential = "canary-backend-credential"
    static let header = FieldName.named("X-Coatcheck-Backend")
    static let session = FieldName.named("X-Coatcheck-Session")
    static var proof: HTTPFields { [header: credential] }

    static func orders(
        _ vault: OpenSSLVault, may: Set<BackendPermission> = Set(BackendPermission.allCases),
        peers: [String] = [], allow: [BackendConfiguration.Scope]? = nil, token: Bool = false, slides: Bool = false
    ) -> BackendConfiguration {
        BackendConfiguration(
            name: BackendName(unchecked: "orders"), digest: vault.digest(Array(credential.utf8)), may: may,
            peers: peers.compactMap { IPNetwork($0) }, allow: allow, forwardAccessToken: token, slides: slides)
    }
}
