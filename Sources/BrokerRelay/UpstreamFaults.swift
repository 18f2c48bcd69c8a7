/// All faults in an upstream's configuration.
package struct UpstreamFaults: Error, Sendable, Equatable {
    package let faults: [UpstreamFault]
}
