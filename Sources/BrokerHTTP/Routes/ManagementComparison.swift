package import Broker

/// Compares a configuration with the running configuration, setting by setting, by a closure that the executable provides.
///
/// The values themselves are never sent. The closure compares digests that are made with the caller's salt.
package struct ManagementComparison: Sendable {
    /// One setting that occurs in at least one of the two configurations.
    package struct Item: Sendable, Equatable {
        /// The setting's dotted path.
        package let path: String
        /// Whether the values differ, or only one of the configurations has the setting.
        package let isChanged: Bool
        /// Whether a change of this setting requires a restart.
        package let needsRestart: Bool

        package init(path: String, isChanged: Bool, needsRestart: Bool) {
            self.path = path
            self.isChanged = isChanged
            self.needsRestart = needsRestart
        }
    }

    /// Returns all settings of both configurations, by path.
    package let compare: @Sendable (_ salt: [UInt8], _ digests: [String: Digest]) -> [Item]

    package init(compare: @escaping @Sendable (_ salt: [UInt8], _ digests: [String: Digest]) -> [Item]) {
        self.compare = compare
    }
}
