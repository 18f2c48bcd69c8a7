import Broker

/// The environment that every provider client is given.
struct ProviderEnvironment: Sendable {
    let http: ProviderHTTP
    let clock: BrokerClock
    let random: @Sendable (Int) throws -> [UInt8]
}
