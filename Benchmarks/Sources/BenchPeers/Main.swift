import AsyncHTTPClient
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import NIOHTTP1

/// Runs a bare server: `BenchPeers hello PORT`, or `BenchPeers relay PORT UPSTREAM-URL`.
@main
struct BenchPeers {
    static func main() async throws {
        let arguments = CommandLine.arguments.dropFirst()
        guard let mode = arguments.first, let port = arguments.dropFirst().first.flatMap({ Int($0) }) else {
            return usage()
        }
        let router: Router<BasicRequestContext>
        switch mode {
        case "hello": router = hello()
        case "relay":
            guard let upstream = arguments.dropFirst(2).first else { return usage() }
            router = relay(to: upstream)
        default: return usage()
        }
        var logger = Logger(label: "peers")
        logger.logLevel = .critical
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)), logger: logger)
        try await application.runService()
    }

    private static func usage() { print("BenchPeers hello PORT | BenchPeers relay PORT UPSTREAM-URL") }

    /// The smallest possible work of a Hummingbird server.
    private static func hello() -> Router<BasicRequestContext> {
        let router = Router()
        router.get("/") { _, _ in "hello" }
        return router
    }

    /// The smallest possible work of a relay with these two libraries: it copies the fields and streams the body back.
    private static func relay(to upstream: String) -> Router<BasicRequestContext> {
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 1024
        let client = HTTPClient(configuration: configuration)
        let router = Router()
        router.get("/**") { request, _ in
            var outgoing = HTTPClientRequest(url: upstream + request.head.path.orRoot)
            for field in request.headers { outgoing.headers.add(name: field.name.rawName, value: field.value) }
            let incoming = try await client.execute(outgoing, timeout: .seconds(30))
            var headers = HTTPFields()
            for (name, value) in incoming.headers {
                if let name = HTTPField.Name(name) { headers.append(HTTPField(name: name, value: value)) }
            }
            return Response(
                status: .init(code: Int(incoming.status.code)), headers: headers,
                body: .init(asyncSequence: incoming.body))
        }
        return router
    }
}

extension String? {
    fileprivate var orRoot: String { self ?? "/" }
}
