import Broker
import HTTPTypes
import Hummingbird
import NIOCore

/// Is what the management handlers work with.
final class ManagementAPI: Sendable {
    let health: ManagementHealth
    let configuration: HTTPConfiguration
    let clock: BrokerClock
    let digest: @Sendable ([UInt8]) -> Digest

    init(
        health: ManagementHealth, configuration: HTTPConfiguration, clock: BrokerClock,
        digest: @escaping @Sendable ([UInt8]) -> Digest
    ) {
        self.health = health
        self.configuration = configuration
        self.clock = clock
        self.digest = digest
    }

    /// `GET /livez`: the process serves requests.
    @Sendable func live(_ call: Call) async throws(BrokerProblem) -> Response {
        Answers.json(.ok, Self.status("ok"), call)
    }

    /// `GET /readyz`: the store is reachable and migrated; providers are shown and do not count.
    @Sendable func ready(_ call: Call) async throws(BrokerProblem) -> Response {
        if health.isShuttingDown() { throw BrokerProblem(.shuttingDown) }
        do throws(StoreFailure) { try await health.ping() } catch { throw BrokerProblem(error) }
        var writer = JSONWriter()
        writer.object { writer in
            writer.member("status", "ok")
            writer.member("store", "ok")
            writer.name("providers")
            writer.object { writer in
                for provider in health.providers() { writer.member(provider.name.text, provider.state) }
            }
        }
        return Answers.json(.ok, writer.bytes, call)
    }

    /// `GET /metrics`: Prometheus text.
    @Sendable func metrics(_ call: Call) async throws(BrokerProblem) -> Response {
        var fields = Answers.fields(call.requestID)
        fields.append(Self.prometheus)
        return Response(
            status: .ok, headers: fields, body: ResponseBody(byteBuffer: ByteBuffer(string: health.metrics())))
    }

    private static let prometheus = HTTPField(name: .contentType, value: "text/plain; version=0.0.4; charset=utf-8")

    private static func status(_ text: String) -> [UInt8] {
        var writer = JSONWriter(capacity: 32)
        writer.object { $0.member("status", text) }
        return writer.bytes
    }
}
