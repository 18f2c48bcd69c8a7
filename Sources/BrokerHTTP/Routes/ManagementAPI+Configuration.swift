package import Broker
import BrokerWire
import HTTPTypes

extension ManagementAPI {
    /// The largest number of settings in one comparison of configurations.
    private static let maximumItems = 10_000

    /// `POST /admin/v1/config/diff`: compares the settings of a configuration with the running one.
    ///
    /// The request contains digests instead of values.
    @Sendable func compareConfiguration(_ call: Call) async throws(BrokerProblem) -> Answer {
        _ = try admin(call, for: .configure)
        guard let comparison else { throw BrokerProblem(.notFound) }
        var object = try object(call, maximum: HTTPLimits.largeBody)
        let salt = object.token("salt", required: true, length: 22...86).flatMap { Base64URL.decode($0.reveal()) }
        let items = object.list("items", required: true, maximum: Self.maximumItems) { item -> (String, Digest)? in
            let path = item.text("path", required: true, length: 1...1024)
            let digest = item.token("digest", required: true, length: 43...43)
                .flatMap { Base64URL.decode($0.reveal()) }.flatMap { Digest($0) }
            guard let path, let digest else { return nil }
            return (path, digest)
        }
        try object.finish()
        guard let salt, let items else { throw BrokerProblem(.invalidRequest) }
        let compared = comparison.compare(salt, Dictionary(items, uniquingKeysWith: { first, _ in first }))
        var writer = JSONWriter(capacity: 64 * compared.count + 64)
        writer.object { writer in
            writer.member("changed", Int64(compared.count(where: \.isChanged)))
            writer.name("items")
            writer.array { writer in
                for item in compared {
                    writer.object { writer in
                        writer.member("path", item.path)
                        writer.member("state", item.isChanged ? "changed" : "same")
                        writer.member("needs_restart", item.isChanged && item.needsRestart)
                    }
                }
            }
        }
        return Answers.json(.ok, writer.bytes, call)
    }
}

/// The comparison of a configuration with the running one, setting by setting, as a closure that the executable provides.
///
/// The values themselves are never sent. The closure compares digests that are made with the caller's salt.
package struct ManagementComparison: Sendable {
    /// One setting of either configuration.
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
