import Broker

/// One client as the engine works with it.
struct EngineClient: Sendable {
    let settings: ClientSettings
    let authenticator: ClientAuthenticator
    /// The endpoint at which the configuration has its grants revoked.
    let revocation: EndpointURL?
    var profile: ClientProfile { settings.profile }
    var wire: WireSettings { settings.wire }
}
