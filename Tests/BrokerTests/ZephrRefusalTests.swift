import Testing

@testable import Broker

/// The meaning of Zephr's message in a callback that reports a failure (flow E).
@Suite struct ZephrRefusalTests {
    @Test(
        "A Zephr failure message may mean something other than the user's refusal → `provider_error`",
        arguments: [
            "", " ", "something went wrong", "Connection denied", "permission denied by upstream: invalid redirect_uri",
            "Access denied: unknown client", "access denied: bad secret", "Denied by configuration",
            "The request was cancelled", "Token exchange aborted", "user", "access", "Undeniable", "Server refused",
            "denied scope", "Provider declined the HTTP request",
        ])
    func faults(_ message: String) async throws {
        #expect(!ZephrRefusal.isUsers(message))
        #expect(try await code(message) == .providerError)
    }

    @Test(
        "A Zephr failure message has the words of a user's refusal → `access_denied`",
        arguments: [
            "access denied", "access_denied", "Access Denied", "denied", "User denied access", "The user denied access",
            "user_cancelled", "Cancelled", "cancelled by user", "The user has declined", "Login was cancelled",
            "Sign in cancelled", "Aborted by the user", "Permission denied", "consent refused",
        ])
    func refusals(_ message: String) async throws {
        #expect(ZephrRefusal.isUsers(message))
        #expect(try await code(message) == .accessDenied)
    }

    @Test(
        "A Zephr refusal has an odd encoding → `access_denied`; a repeated message or broken status → `invalid_callback`"
    )
    func oddMessages() async throws {
        for query in ["message=Access%20denied%20%E9", "message=Access denied 100%", "message=Access%20denied|&x=%ff&"]
        {
            #expect(try await code(query: "status=failure&" + query) == .accessDenied, "\(query)")
        }
        for query in [
            "status=failure&message=Access%20denied&mess%61ge=x", "status=failure%E9&message=x",
            "status=failure&status=success",
            "status=success&session_id=%E9", "status=partial&state_key=a&state_k%65y=b",
        ] { #expect(try await code(query: query) == .invalidCallback, "\(query)") }
    }

    /// Returns the problem code for a callback that reports a failure with this message.
    private func code(_ message: String) async throws -> ProblemCode? {
        try await code(query: "status=failure&" + FormPairs.encode([(name: "message", value: message)]))
    }

    /// Returns the problem code for a callback with this query.
    private func code(query: String) async throws -> ProblemCode? {
        let broker = try TestBroker(also: [ScriptedRegistrar()])
        var input = ForwardCodeInput()
        input.provider = ProviderName(unchecked: "zephr")
        input.client = ClientName(unchecked: "ios")
        input.callbackURL = "\(ScriptedRegistrar.redirect)?action=login&\(query)"
        return await problem { [input] in try await broker.forward(input) }?.code
    }
}
