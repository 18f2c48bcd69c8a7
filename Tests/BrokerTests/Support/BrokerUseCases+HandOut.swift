@testable import Broker

extension BrokerUseCases {
    /// Hands out the access token of the session that a token opens, as the route does.
    func handOut(_ token: Secret) async throws(BrokerProblem) -> AccessToken {
        try await handOutToken.handOut(from: try await resumeSession.resume(token))
    }
}
