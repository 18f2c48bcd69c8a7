import HTTPTypes
import Hummingbird

/// The pushed authorization request endpoint (RFC 9126).
struct PushedAuthorization {
    let server: any AuthorizationServer
    let call: Call

    func answer() async throws -> Response {
        guard call.method == .post, let form = call.form else { throw OAuthFailure.request("a form body is wanted") }
        if let name = form.repeatedName { throw OAuthFailure.request("\(name) comes twice") }
        let client = try await server.authenticate(call, form: form)
        guard form["request_uri"] == nil else { throw OAuthFailure.request("request_uri may not be pushed") }
        var parameters = form
        let secrets = ["client_secret", "client_assertion", "client_assertion_type"]
        parameters.all.removeAll { secrets.contains($0.name) }
        if parameters["client_id"] == nil { parameters.add("client_id", client) }
        let reference = "urn:ietf:params:oauth:request_uri:" + Random.token()
        let pushed = PushedRequest(
            provider: server.name, clientID: client, parameters: parameters, expiresAt: call.now + 60)
        call.state.with { $0.pushed[reference] = pushed }
        return .json(["request_uri": .string(reference), "expires_in": 60], status: 201)
    }
}
