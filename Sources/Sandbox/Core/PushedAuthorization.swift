import HTTPTypes
import Hummingbird

/// The pushed authorization request endpoint (RFC 9126).
struct PushedAuthorization {
    let server: any AuthorizationServer
    let call: Call

    func answer() async throws -> Response {
        guard call.method == .post, let form = call.form else { throw OAuthFailure.request("a form body is wanted") }
        if let name = form.repeatedName(but: ["resource"]) { throw OAuthFailure.request("\(name) comes twice") }
        let client = try await server.authenticate(call, form: form)
        let possession = ProofOfPossession(call: call, role: .authorization)
        let shown = possession.isOn ? try await possession.check() : nil
        // If the request has both a proof and `dpop_jkt`, they must name the same key (RFC 9449 section 10.1).
        if let shown, let named = form["dpop_jkt"], named != shown.thumbprint {
            throw OAuthFailure.request("dpop_jkt is not the proof's key")
        }
        try RequestedTarget(form).checkForm()
        guard form["request_uri"] == nil else { throw OAuthFailure.request("request_uri may not be pushed") }
        try FAPI2Server(call: call).check(pushed: form, thumbprint: shown?.thumbprint)
        var parameters = form
        let secrets = ["client_secret", "client_assertion", "client_assertion_type"]
        parameters.all.removeAll { secrets.contains($0.name) }
        if parameters["client_id"] == nil { parameters.add("client_id", client) }
        if parameters["dpop_jkt"] == nil { parameters.add("dpop_jkt", shown?.thumbprint) }
        let reference = "urn:ietf:params:oauth:request_uri:" + Random.token()
        let pushed = PushedRequest(
            provider: server.name, clientID: client, parameters: parameters, expiresAt: call.now + 60)
        call.state.with { $0.pushed[reference] = pushed }
        return .json(["request_uri": .string(reference), "expires_in": 60], status: 201)
    }
}
