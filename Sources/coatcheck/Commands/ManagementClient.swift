import ArgumentParser
import AsyncHTTPClient
import Broker
import Foundation
import NIOCore
import NIOHTTP1

/// The options of commands that call a running broker, and the call itself.
struct ManagementClient: ParsableArguments {
    /// The address of the management listener, unless an option or the configuration names another address.
    static let standardAddress = "http://127.0.0.1:9090"
    /// The environment variable with the path of the token's file, for commands without the option `--token-file`.
    private static let tokenVariable = "COATCHECK_TOKEN_FILE"

    @Option(
        name: .long, help: "The management listener (default: the configuration file's, else http://127.0.0.1:9090).")
    var management: String?

    @Option(
        name: .long, help: "A file with an admin token in its first line (default: what COATCHECK_TOKEN_FILE names).",
        completion: .file())
    var tokenFile: String?

    init() {}

    /// Creates a client for a command with its own options.
    init(management: String?, tokenFile: String) {
        self.management = management
        self.tokenFile = tokenFile
    }

    /// Whether a token is configured.
    var hasToken: Bool { token != nil }

    private var token: String? { tokenFile ?? ProcessInfo.processInfo.environment[Self.tokenVariable] }

    /// Whether the listener's address is on this machine.
    var isOnLoopback: Bool { WebURL(management ?? Self.standardAddress)?.isLoopback ?? false }

    /// Returns a client for the listener in a configuration file, unless an address was given.
    func completed(by config: String?) throws -> ManagementClient {
        guard management == nil, let config else { return self }
        var client = self
        client.management = try ManagementAddress.read(config)
        return client
    }

    /// Makes one call and returns the parsed body; nil if the body is not a JSON object.
    ///
    /// The token is sent only to loopback or over TLS. A refusal or a missing answer ends the command with status 1.
    func call(
        _ method: String, _ path: String, body content: [UInt8]? = nil, within limit: Duration = .seconds(15)
    ) async throws -> JSONObject? {
        let management = management ?? Self.standardAddress
        guard let tokenFile = token else {
            throw Self.fault("use --token-file, or set \(Self.tokenVariable)")
        }
        guard let url = WebURL(management), url.isSecure || url.isLoopback else {
            throw Self.fault("--management has to be https, or http on loopback")
        }
        guard let bytes = BoundedFile.read(tokenFile, limit: 4096),
            let line = String(decoding: bytes, as: UTF8.self).split(separator: "\n").first
        else { throw Self.fault("\(tokenFile) cannot be read, or is empty") }
        var request = HTTPClientRequest(url: management + path)
        request.method = .RAW(value: method)
        request.headers.add(name: "Authorization", value: "Bearer \(line)")
        if let content {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(content)
        }
        var configuration = HTTPClient.Configuration(redirectConfiguration: .disallow)
        configuration.httpVersion = .http1Only
        let client = HTTPClient(configuration: configuration)
        do {
            let response = try await client.execute(request, timeout: .nanoseconds(limit.nanoseconds))
            let body = try await response.body.collect(upTo: 4 << 20)
            try await client.shutdown()
            return try Self.read(Int(response.status.code), Array(body.readableBytesView))
        } catch let error as ExitCode {
            throw error
        } catch {
            try? await client.shutdown()
            throw Self.fault("\(management) does not answer")
        }
    }

    private static func read(_ status: Int, _ body: [UInt8]) throws -> JSONObject? {
        let object = try? JSONParser.parseObject(body, maximumBytes: 4 << 20, maximumDepth: 16)
        guard (200...299).contains(status) else {
            let detail = object?["detail"]?.string.map { ": \($0)" } ?? ""
            throw fault("refused with \(status) \(object?["code"]?.string ?? "")\(detail)")
        }
        return object
    }

    static func fault(_ text: String) -> ExitCode {
        StandardError.write(text)
        return ExitCode(1)
    }
}

/// The address of a configuration file's management listener, as seen from this machine.
enum ManagementAddress {
    private static let path = "management.listen"

    /// Reads only the setting of the management listener from the file.
    ///
    /// The other files that the configuration names, above all the secrets, need not exist on this machine.
    static func read(_ file: String) throws -> String {
        let text: String
        do throws(ConfigurationFailure) { text = try Configuration.text(of: file) } catch {
            throw ManagementClient.fault("\(error)")
        }
        let context = ConfigContext(sources: .process(directory: ""))
        guard let root = context.compose(text) else { throw ManagementClient.fault("\(file) is not YAML") }
        let section = ConfigSection(root, path: "", pattern: "", line: 1, context: context)
        let listen = ManagementSettings(section.section("management")).listen
        if let problem = context.finish().first(where: { $0.severity == .error && $0.path == path }) {
            throw ManagementClient.fault("\(file): \(problem)")
        }
        return url(listen)
    }

    /// Returns a listener's URL.
    ///
    /// For a listener on all interfaces, loopback is used.
    static func url(_ listen: ListenAddress) -> String {
        switch listen.host {
        case "0.0.0.0": "http://127.0.0.1:\(listen.port)"
        case "::": "http://[::1]:\(listen.port)"
        case let host where host.contains(":"): "http://[\(host)]:\(listen.port)"
        default: "http://\(listen.host):\(listen.port)"
        }
    }
}
