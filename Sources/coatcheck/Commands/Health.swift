import ArgumentParser
import AsyncHTTPClient
import Broker
import NIOCore
import NIOHTTP1

/// Asks a running broker how it is, for whoever has no curl: a container's health check above all.
struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask the management listener whether the broker is ready; status 1 if it is not.",
        discussion: "The address is that of the configuration file, or of --management.")

    @Option(name: .long, help: "The configuration file, for the management listener's address.") var config: String?
    @Option(name: .long, help: "The management listener.") var management: String?
    @Flag(help: "Only whether it lives: do not ask for its store and keys.") var live = false

    func run() async throws {
        // No token goes with it, so any address will do.
        let url = try (management ?? config.map { try Self.address(of: $0) } ?? "http://127.0.0.1:9090")
        var settings = HTTPClient.Configuration(redirectConfiguration: .disallow)
        settings.httpVersion = .http1Only
        let client = HTTPClient(configuration: settings)
        let answer: (status: Int, body: [UInt8])?
        do {
            let response = try await client.execute(
                HTTPClientRequest(url: url + (live ? "/livez" : "/readyz")), timeout: .seconds(3))
            let body = try await response.body.collect(upTo: 64 << 10)
            answer = (Int(response.status.code), Array(body.readableBytesView))
        } catch {
            answer = nil
        }
        try? await client.shutdown()
        guard let answer else { throw ManagementClient.fault("\(url) does not answer") }
        let object = try? JSONParser.parseObject(answer.body, maximumBytes: 64 << 10, maximumDepth: 8)
        let status = object?["status"]?.string ?? "\(answer.status)"
        guard answer.status == 200 else { throw ManagementClient.fault(status) }
        print(status)
    }

    /// Where this machine reaches the management listener of a configuration; one that listens everywhere is on loopback, too.
    private static func address(of config: String) throws -> String {
        let listen = try ConfigOption.load(config).management.listen
        let host =
            switch listen.host {
            case "0.0.0.0": "127.0.0.1"
            case "::": "::1"
            default: listen.host
            }
        return "http://" + (host.contains(":") ? "[\(host)]" : host) + ":\(listen.port)"
    }
}
