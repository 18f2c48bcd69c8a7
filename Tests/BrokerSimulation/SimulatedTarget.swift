import Broker

/// The APIs that a simulated provider knows, some of them refused.
struct SimulatedTarget {
    private static let names = ["a", "b", "x", "consent", "unknown", "silent"]

    let name: String

    init(_ target: TokenTarget) { name = target.audience ?? "" }

    /// Whether the provider always refuses this target.
    var isRefused: Bool { !["a", "b", "x"].contains(name) }
    /// Whether a refusal of this target concerns the client, and so all of its sessions.
    var isRefusedToClient: Bool { name == "unknown" }

    /// Returns a target to request, with the given share of refused targets.
    static func pick(_ random: inout SeededRandom, refused: Double) -> TokenTarget {
        if random.chance(refused) {
            return TokenTarget(audience: random.pick(["consent", "unknown", "silent"]))
        }
        let name = random.chance(0.75) ? random.pick(["a", "b", "x"]) : random.pick(Self.names)
        return TokenTarget(grant: name == "x" ? .exchange : .refresh, audience: name)
    }

    /// Throws if the provider refuses the target, with one of the errors that real servers use.
    ///
    /// The grant stays good.
    func check() throws(ProviderFailure) {
        switch name {
        case "consent": throw .rejected(OAuthError(status: 400, code: "invalid_grant"))
        case "unknown": throw .rejected(OAuthError(status: 400, code: "invalid_target"))
        case "silent": throw .rejected(OAuthError(status: 401, code: ""))
        default: break
        }
    }
}
