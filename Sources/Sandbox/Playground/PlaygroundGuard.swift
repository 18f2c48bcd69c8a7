/// Decides which callers may control the sandbox: the sandbox's own pages and local programs, but no page of another web site.
///
/// A page of another site can make a browser send requests to the sandbox. If that site makes its name resolve to loopback (DNS
/// rebinding), its page can even read the answers. `Origin` reveals the first attack, and `Host` the second. In addition, only
/// the sandbox's own page has the token.
struct PlaygroundGuard: Sendable {
    /// The parts of a request that the guard checks.
    struct Caller: Sendable {
        var host: String?
        var origin: String?
        var contentType: String?
        var token: String?
    }

    /// The reason why a request is refused.
    enum Refusal: String, Error {
        case foreignHost = "This is for loopback: the Host has to be 127.0.0.1, localhost or [::1]."
        case foreignOrigin = "Another site's page may not do this."
        case notJSON = "The body has to be application/json."
        case wrongToken = "The token is not this start's: load the page again."

        /// The status of the refusal.
        var status: Int {
            switch self {
            case .foreignHost: 421
            case .foreignOrigin, .wrongToken: 403
            case .notJSON: 415
            }
        }
    }

    /// The secret that only pages have that were loaded since this start of the sandbox.
    let token: String

    /// Checks the caller of a control route.
    func check(_ caller: Caller) throws(Refusal) {
        try Self.checkPlace(caller)
        let type = (caller.contentType ?? "").prefix { $0 != ";" }.lowercased().trimmingSpaces
        guard type == "application/json" else { throw .notJSON }
        guard let sent = caller.token, Self.same(sent, token) else { throw .wrongToken }
    }

    /// Checks the conditions that apply to every route.
    ///
    /// `Host` must be loopback or the sandbox's own name. `Origin` must be the sandbox's own, or absent.
    static func checkPlace(_ caller: Caller, own: String? = nil) throws(Refusal) {
        guard let host = caller.host, isLoopback(host) || host == own else { throw .foreignHost }
        if let origin = caller.origin, origin != "http://" + host { throw .foreignOrigin }
    }

    /// Whether a `Host` is a loopback name, with an optional port.
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

    /// Returns whether two texts are equal; the duration does not show the position of the first difference.
    private static func same(_ left: String, _ right: String) -> Bool {
        let (left, right) = (Array(left.utf8), Array(right.utf8))
        guard left.count == right.count else { return false }
        return zip(left, right).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
