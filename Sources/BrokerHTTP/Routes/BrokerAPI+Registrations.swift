import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// `POST /v1/registrations`: finishes a Zephr partial registration (flow E).
    @Sendable func finishRegistration(_ call: Call) async throws(BrokerProblem) -> Answer {
        let input = try finishRegistrationInput(call)
        return created(try await useCases.finishRegistration.finish(input), call)
    }

    private func finishRegistrationInput(_ call: Call) throws(BrokerProblem) -> FinishRegistrationInput {
        var body = try json(call)
        let provider: ProviderName? = body.name("provider", required: true)
        let client: ClientName? = body.name("client")
        let stateKey = body.opaque("state_key", required: true)
        let attributes = body.members("attributes", required: true, maximum: 64) { value in
            switch value {
            case .string(let text): RequestText.fault(in: text, length: 0...1024) { _ in true }
            case .number, .bool: nil
            case .object, .array, .null: .wrongType
            }
        }
        let token = body.token("login_token", length: 43...128)
        try body.finish()
        guard let provider, let stateKey, let attributes else { throw BrokerProblem(.invalidRequest) }
        var input = FinishRegistrationInput(
            provider: provider, client: client, stateKey: stateKey, attributes: attributes,
            loginToken: try loginToken(call, body: token), presentedSession: try presentedSession(call),
            charge: charge(call))
        input.evidence = try evidence(of: call)
        return input
    }
}
