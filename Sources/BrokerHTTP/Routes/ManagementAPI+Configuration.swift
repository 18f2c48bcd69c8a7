import Broker
import BrokerWire
import HTTPTypes

extension ManagementAPI {
    /// The largest number of settings in one comparison of configurations.
    private static let maximumItems = 10_000

    /// `POST /admin/v1/config/diff`: compares the settings in the request with those of the running configuration.
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
