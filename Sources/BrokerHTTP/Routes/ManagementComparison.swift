package import Broker

/// Compares a configuration with the running one, setting by setting, as a closure that the executable fills in.
///
/// Neither side's values travel: what is compared are digests under the salt that the caller chose.
package struct ManagementComparison: Sendable {
    /// One setting of either configuration.
    package struct Item: Sendable, Equatable {
        /// Where it stands, as a dotted path.
        package let path: String
        /// Whether its value is another, or only one of the two has it.
        package let isChanged: Bool
        /// Whether a change takes a restart.
        package let needsRestart: Bool

        package init(path: String, isChanged: Bool, needsRestart: Bool) {
            self.path = path
            self.isChanged = isChanged
            self.needsRestart = needsRestart
        }
    }

    /// Returns all settings of both, by path.
    package let compare: @Sendable (_ salt: [UInt8], _ digests: [String: Digest]) -> [Item]

    package init(compare: @escaping @Sendable (_ salt: [UInt8], _ digests: [String: Digest]) -> [Item]) {
        self.compare = compare
    }
}
