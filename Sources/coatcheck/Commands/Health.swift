import ArgumentParser
import AsyncHTTPClient
import Broker
import NIOCore
import NIOHTTP1

/// Requests a running broker's health, mainly for a container's health check without curl.
struct Health: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Ask the management listener whether the broker is ready; status 1 if it is not.",
        discussion: "The address is that of the configuration file, or of --management.")

    @OptionGroup var defaults: ConfigDefaults
    @Option(name: .long, help: "The management listener.") var management: String?
    @Flag(help: "Only whether it lives: do not ask for its store and keys.") var live = false

    func run() async throws {
        // The request carries no token, so `--management` may name any address, even with plain http.
        let configured = try management == nil ? defaults.config.map { try ManagementAddress.read($0) } : nil
        let url = management ?? configured ?? ManagementClient.standardAddress
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
}
