import Broker

/// One client as the engine works with it.
struct EngineClient: Sendable {
    let settings: ClientSettings
    let authenticator: ClientAuthenticator
    var profile: ClientProfile { settings.profile }
    var wire: WireSettings { settings.wire }
}
