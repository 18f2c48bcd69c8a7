import Broker
import BrokerWire
import HTTPTypes

extension BrokerAPI {
    /// `GET /openapi.yaml`: the contract.
    @Sendable func readContract(_ call: Call) async throws(BrokerProblem) -> Answer {
        Answers.file(constants.contract, type: Self.yaml, call)
    }

    /// `GET /.well-known/apple-app-site-association` (SEC-93).
    @Sendable func readAppleAssociation(_ call: Call) async throws(BrokerProblem) -> Answer {
        guard let file = constants.appleAppSiteAssociation else { throw BrokerProblem(.notFound) }
        return Answers.file(file, type: ConstantFields.json, call)
    }

    /// `GET /.well-known/assetlinks.json` (SEC-93).
    @Sendable func readAssetLinks(_ call: Call) async throws(BrokerProblem) -> Answer {
        guard let file = constants.assetLinks else { throw BrokerProblem(.notFound) }
        return Answers.file(file, type: ConstantFields.json, call)
    }

    private static let yaml = HTTPField(name: .contentType, value: "application/yaml")
}
