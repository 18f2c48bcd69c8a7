/// Is what is accepted of an id_token (`id_token`).
struct IDTokenSection: Sendable {
    enum Algorithm: String, Sendable, CaseIterable, Hashable {
        case rs256 = "RS256", es256 = "ES256", ps256 = "PS256", edDSA = "EdDSA"
    }

    /// The accepted algorithms; empty when the file names none.
    let algorithms: Set<Algorithm>
    let leeway: Duration?

    init(_ section: ConfigSection) {
        algorithms = section.choices("algorithms")
        leeway = section.optionalDuration("leeway", in: .zero ... .seconds(300))
    }
}
