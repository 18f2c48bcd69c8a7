import Broker
import BrokerWire
import HTTPTypes
import NIOCore

extension BrokerAPI {
    /// `GET /openapi.yaml`: the contract of the broker's API.
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

extension BrokerAPI {
    /// Answers a browser that opened an app link path (such as a callback), although the app should have opened it.
    ///
    /// The page is the same for all callbacks and has no script. The address may contain a code, so the page repeats no part
    /// of it.
    @Sendable func askToOpenApp(_ call: Call) async throws(BrokerProblem) -> Answer {
        var fields = Answers.fields(call.requestID)
        fields.append(Self.html)
        return Answer(.ok, fields, body: .whole(Self.openTheApp))
    }

    private static let html = HTTPField(name: .contentType, value: "text/html; charset=utf-8")

    private static let openTheApp = ByteBuffer(
        string: """
            <!doctype html>
            <html lang="en">
            <head>
            <meta charset="utf-8">
            <meta name="viewport" content="width=device-width, initial-scale=1">
            <title>Open the app</title>
            </head>
            <body>
            <h1>Open the app</h1>
            <p>This page belongs to an app, which did not open by itself. Open the app and sign in there again.</p>
            </body>
            </html>

            """)
}
