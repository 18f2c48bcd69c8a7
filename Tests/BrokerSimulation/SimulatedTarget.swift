import Broker

/// An API, other than the session's own, that the simulated provider knows.
///
/// The provider refuses some of these APIs.
struct SimulatedTarget {
    private static let names = ["a", "b", "x", "consent", "unknown", "silent"]

    let name: String

    init(_ target: TokenTarget) { name = target.audience ?? "" }

    /// Whether the provider always refuses this target.
    var isRefused: Bool { !["a", "b", "x"].contains(name) }
    /// Whether the provider refuses this target to the client, and so to all sessions of the client.
    var isRefusedToClient: Bool { name == "unknown" }

    /// Returns a random target.
    ///
    /// `refused` is the probability that the provider refuses the target.
    static func pick(_ random: inout SeededRandom, refused: Double) -> TokenTarget {
        if random.chance(refused) {
            return TokenTarget(audience: random.pick(["consent", "unknown", "silent"]))
        }
        let name = random.chance(0.75) ? random.pick(["a", "b", "x"]) : random.pick(Self.names)
        return TokenTarget(grant: name == "x" ? .exchange : .refresh, audience: name)
    }

    /// Throws if the provider refuses the target.
    ///
    /// The errors are those that real servers use.
    ///
    /// The grant stays alive after this refusal.
    func check() throws(ProviderFailure) {
        switch name {
        case "consent": throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
        case "unknown": throw .rejected(OAuthError(status: 400, code: "invalid_target"))
        case "silent": throw .rejected(OAuthError(status: 401, code: ""))
        default: break
        }
    }
}
