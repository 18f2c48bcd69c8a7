/// A provider that the broker can ask for the time, which is in the `Date` field of the answer.
package protocol TimeTelling: ProviderClient {
    /// The provider's host; nil if the host's answer is never evidence, for example because the host is this machine.
    var timeHost: String? { get }

    /// Asks the provider for the time once; returns nil if the answer takes too long or cannot be evidence.
    ///
    /// The request leaves out the broker's own time, because the provider's answer could repeat it.
    func time() async -> WallTime?
}
