/// A backend whose credential or address was verified.
struct ProvenBackend: Sendable {
    let configuration: BackendConfiguration
    /// Whether the backend's credential was in the `Authorization` field, which then contains no session token.
    let usedAuthorization: Bool
}
