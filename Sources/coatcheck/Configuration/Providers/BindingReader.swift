import Broker

/// Reads `clients.NAME.binding`: whether a client's sessions belong to a key of the device.
enum BindingReader {
    /// Passes are short, for they are what a thief of a request's header has.
    private static let lifetimes = Duration.seconds(60)...Duration.seconds(900)

    static func read(_ section: ConfigSection) -> BindingPolicy {
        var policy = BindingPolicy()
        policy.mode = section.choice("mode") ?? policy.mode
        policy.evidence = section.choice("evidence") ?? policy.evidence
        policy.passLifetime = section.duration("pass", default: policy.passLifetime, in: lifetimes)
        return policy
    }
}
