import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import Sandbox

/// A client that does not follow redirects.
struct Browser {
    struct Answer {
        let status: UInt
        let headers: HTTPHeaders
        let text: String
        var json: JSON { (try? JSON.parse(text)) ?? .null }
        var location: String { headers.first(name: "Location") ?? "" }
        /// The callback's parameters.
        var callback: Pairs { Pairs(parsing: location.split(separator: "?").dropFirst().joined(separator: "?")) }
    }

    static let client: HTTPClient = {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 64
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    let sandbox: RunningSandbox
    /// The verifier of RFC 7636 appendix B.
    static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
    static let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

    func send(
        _ method: HTTPMethod, _ path: String, form: [(String, String)]? = nil, json: JSON? = nil,
        headers: [(String, String)] = []
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: sandbox.baseURL + path)
        request.method = method
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let form {
            request.headers.add(name: "Content-Type", value: "application/x-www-form-urlencoded")
            request.body = .bytes(ByteBuffer(string: Pairs(form).encoded))
        }
        if let json {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(string: json.serialized))
        }
        let response = try await Self.client.execute(request, timeout: .seconds(20))
        let body = try await response.body.collect(upTo: 16 << 20)
        return Answer(status: response.status.code, headers: response.headers, text: String(buffer: body))
    }

    func authorize(_ path: String = "/oidc/authorize", _ more: [(String, String)] = []) async throws -> Answer {
        var query = Pairs([
            ("response_type", "code"), ("client_id", "app"), ("redirect_uri", "app:/cb"),
            ("scope", "openid email profile"), ("state", "s1"), ("nonce", "n1"), ("code_challenge", Self.challenge),
            ("code_challenge_method", "S256"), ("sandbox_user", "ana"),
        ])
        for (name, value) in more {
            query.all.removeAll { $0.name == name }
            query.add(name, value)
        }
        return try await send(.GET, path + "?" + query.encoded)
    }

    func redeem(_ code: String, verifier: String = Browser.verifier, path: String = "/oidc/token") async throws
        -> Answer
    {
        try await send(
            .POST, path,
            form: [
                ("grant_type", "authorization_code"), ("client_id", "app"), ("redirect_uri", "app:/cb"),
                ("code_verifier", verifier), ("code", code),
            ])
    }

    func refresh(_ token: String) async throws -> Answer {
        try await send(
            .POST, "/oidc/token",
            form: [("grant_type", "refresh_token"), ("client_id", "app"), ("refresh_token", token)])
    }

    func code() async throws -> String { try await authorize().callback["code"] ?? "" }
}
