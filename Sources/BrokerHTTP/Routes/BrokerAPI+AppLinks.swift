import Broker
import BrokerWire
import HTTPTypes
import NIOCore

extension BrokerAPI {
    /// What a browser is shown at a callback path of an app that did not open: the same for everybody, without scripts, and
    /// without anything of the address, in which a code may stand.
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
