@testable import Broker

extension BrokerUseCases {
    /// Hands out an access token to the owner of a session token, as the route does.
    func handOut(_ token: Secret) async throws(BrokerProblem) -> AccessToken {
        try await handOutToken.handOut(from: try await resumeSession.resume(token))
    }
}
