/// Judges who may use what controls the sandbox: pages of its own and programs of this machine, no other web site.
///
/// A page elsewhere can make a browser send requests here, and by a name of its own that leads to loopback (DNS rebinding)
/// even read the answers. The first says so in `Origin`, the second in `Host`; and no page but ours knows the token.
struct PlaygroundGuard: Sendable {
    /// The parts of a request that are looked at.
    struct Caller: Sendable {
        var host: String?
        var origin: String?
        var contentType: String?
        var token: String?
    }

    /// The reason for which a request is refused.
    enum Refusal: String, Error {
        case foreignHost = "This is for loopback: the Host has to be 127.0.0.1, localhost or [::1]."
        case foreignOrigin = "Another site's page may not do this."
        case notJSON = "The body has to be application/json."
        case wrongToken = "The token is not this start's: load the page again."

        /// The status that says it.
        var status: Int {
            switch self {
            case .foreignHost: 421
            case .foreignOrigin, .wrongToken: 403
            case .notJSON: 415
            }
        }
    }

    /// The secret that the page of this start has.
    let token: String

    /// Checks a control route's caller.
    func check(_ caller: Caller) throws(Refusal) {
        try Self.checkPlace(caller)
        let type = (caller.contentType ?? "").prefix { $0 != ";" }.lowercased().trimmingSpaces
        guard type == "application/json" else { throw .notJSON }
        guard let sent = caller.token, Self.same(sent, token) else { throw .wrongToken }
    }

    /// Checks what every route takes: a loopback `Host`, or the sandbox's own; its own `Origin`, or none.
    static func checkPlace(_ caller: Caller, own: String? = nil) throws(Refusal) {
        guard let host = caller.host, isLoopback(host) || host == own else { throw .foreignHost }
        if let origin = caller.origin, origin != "http://" + host { throw .foreignOrigin }
    }

    /// Whether a `Host` is a loopback name, with or without a port.
    static func isLoopback(_ host: String) -> Bool {
        ["127.0.0.1", "localhost", "[::1]"].contains { name in
            guard host.hasPrefix(name) else { return false }
            let rest = host.utf8.dropFirst(name.utf8.count)
            guard let first = rest.first else { return true }
            let digits = rest.dropFirst()
            return first == UInt8(ascii: ":") && (1...5).contains(digits.count)
                && digits.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
        }
    }

    /// Whether two texts are the same; how long it takes says nothing of where they differ.
    private static func same(_ left: String, _ right: String) -> Bool {
        let (left, right) = (Array(left.utf8), Array(right.utf8))
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
