import Broker
import BrokerWire
import HTTPTypes

extension ManagementAPI {
    /// `POST /admin/v1/first-imports`: makes an import with the operator's own tokens, which ends before its session.
    @Sendable func firstImport(_ call: Call) async throws(BrokerProblem) -> Answer {
        let token = try admin(call, for: .maintain)
        let order = try FirstImportBody.read(call.body, maximumBytes: configuration.limits.body)
        let result = try await sessions.firstImport.run(order, actor: token.name)
        var writer = JSONWriter(capacity: 512)
        writer.object { writer in
            writer.member("subject", result.subject)
            writer.member("detail", result.detail)
        }
        return Answers.json(.ok, writer.bytes, call)
    }
}
