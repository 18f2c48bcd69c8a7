/// A provider that can report the time, by the `Date` of its answer to a request for this purpose.
package protocol TimeTelling: ProviderClient {
    /// The provider's host; nil if its answer could never be evidence, for example because the host is this machine.
    var timeHost: String? { get }

    /// Asks for the time once, within some seconds; returns nil if the answer cannot be evidence.
    ///
    /// The request leaves out the broker's own time, because the answer could repeat it.
    func time() async -> WallTime?
}
