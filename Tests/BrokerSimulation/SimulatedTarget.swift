import Broker

/// The APIs that a simulated provider knows, and those that it gives no token for.
struct SimulatedTarget {
    private static let names = ["a", "b", "x", "consent", "unknown", "silent"]

    let name: String

    init(_ target: TokenTarget) { name = target.audience ?? "" }

    /// Returns one that somebody asks for; most are given.
    static func pick(_ random: inout SeededRandom) -> TokenTarget {
        let name = random.chance(0.75) ? random.pick(["a", "b", "x"]) : random.pick(Self.names)
        return TokenTarget(grant: name == "x" ? .exchange : .refresh, audience: name)
    }

    /// Refuses what is not given, in the words that servers have for it: the grant is none the worse.
    func check() throws(ProviderFailure) {
        switch name {
        case "consent": throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
        case "unknown": throw .rejected(OAuthError(status: 400, code: "invalid_target"))
        case "silent": throw .rejected(OAuthError(status: 401, code: ""))
        default: break
        }
    }
}
