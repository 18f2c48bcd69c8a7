import Broker
import BrokerHTTP

/// The management listener (`management`).
struct ManagementSettings: Sendable {
    let listen: ListenAddress
    /// The names accepted in `Host`, in addition to addresses and loopback names.
    let hosts: [String]
    let adminTokens: [AdminToken]

    init(_ section: ConfigSection) {
        listen = section.listenAddress("listen", default: ListenAddress(host: "127.0.0.1", port: 9090))
        if !listen.isLoopback {
            section.warn("listen", "is reachable from other machines, where health and metrics need no token")
        }
        hosts = section.hostNames("hosts")
        adminTokens = section.list("admin_tokens").compactMap { item in
            let name = item.requiredText("name", limit: 63)
            let digest = item.sha256("sha256")
            item.require("sha256")
            let may = item.choices("may", as: AdminPermission.self)
            if may.isEmpty {
                item.report(
                    nil, "needs `may: [read]`, `[end]`, `[maintain]`, `[configure]`, `[export]` or several of them")
            }
            guard let name, let digest else { return nil }
            return AdminToken(name: name, digest: digest, may: may)
        }
        for (index, token) in adminTokens.enumerated() {
            for other in adminTokens.prefix(index) {
                if other.name == token.name { section.report("admin_tokens", "names two tokens alike") }
                if other.digest == token.digest { section.report("admin_tokens", "holds the same token twice") }
            }
        }
    }
}
