@testable import Broker

extension BrokerUseCases {
    /// Hands out the access token of a token's session, as the route does.
    func handOut(_ token: Secret) async throws(BrokerProblem) -> AccessToken {
        try await handOutToken.handOut(from: try await resumeSession.resume(token))
    }
}
