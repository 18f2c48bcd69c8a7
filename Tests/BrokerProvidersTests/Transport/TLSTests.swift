import Broker
import Foundation
import Testing

@testable import BrokerProviders

/// OpenSSL's test server, `s_server`, with a certificate that this class makes.
private final class TLSServer {
    let certificate: String
    let port: Int
    private let folder: URL
    private let process: Process
    private let output = Pipe()

    static let openssl = "/usr/bin/openssl"

    /// Starts a server whose self-signed certificate names `name` (`IP:127.0.0.1`), and returns once it listens.
    init(named name: String) async throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "tls-" + UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        certificate = folder.appending(path: "cert.pem").path
        let key = folder.appending(path: "key.pem").path
        try Self.run([
            "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
            "-subj",
            "/CN=test", "-addext", "subjectAltName=" + name, "-keyout", key, "-out", certificate,
        ]).waitUntilExit()
        // The server chooses a free port and prints it. A port that the test chose before the start may be in use by now.
        process = try Self.run(
            ["s_server", "-accept", "127.0.0.1:0", "-www", "-cert", certificate, "-key", key], to: output)
        guard let port = try Self.port(output) else {
            process.terminate()
            throw POSIXError(.EADDRNOTAVAIL)
        }
        self.port = port
    }

    /// Returns the port from the line that reports listening; nil if the server ended before this line.
    private static func port(_ output: Pipe) throws -> Int? {
        var line: [UInt8] = []
        while let byte = try output.fileHandleForReading.read(upToCount: 1)?.first {
            line.append(byte)
            guard byte == UInt8(ascii: "\n") else { continue }
            let words = String(decoding: line, as: UTF8.self).split(whereSeparator: \.isWhitespace)
            if words.first == "ACCEPT" { return words.last?.split(separator: ":").last.flatMap { Int($0) } }
            line = []
        }
        return nil
    }

    deinit {
        process.terminate()
        try? FileManager.default.removeItem(at: folder)
    }

    @discardableResult
    private static func run(_ arguments: [String], to output: Pipe? = nil) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: openssl)
        process.arguments = arguments
        process.standardInput = Pipe()
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        if let output { process.standardOutput = output }
        try process.run()
        return process
    }
}

@Suite(
    "TLS to providers", .enabled(if: FileManager.default.isExecutableFile(atPath: TLSServer.openssl)),
    .timeLimit(.minutes(2)))
struct TLSTests {
    private func post(_ server: TLSServer, _ settings: TransportSettings) async -> Result<Int, ProviderFailure> {
        await answer(server, settings) {
            ProviderRequest(method: "POST", url: $0, connection: .single, body: Array("code=secret".utf8))
        }
    }

    private func answer(
        _ server: TLSServer, _ settings: TransportSettings,
        _ request: (EndpointURL) -> ProviderRequest = { .get($0) }
    ) async -> Result<Int, ProviderFailure> {
        let http = ProviderHTTP(settings: settings)
        let result: Result<Int, ProviderFailure>
        do throws(ProviderFailure) {
            guard let url = EndpointURL("https://127.0.0.1:\(server.port)/") else { throw .unusable(detail: "no URL") }
            let answer = try await http.send(
                request(url),
                limiter: CallLimiter(limits: CallLimits(), clock: Support.clock), internalAddresses: false,
                total: .seconds(10))
            result = .success(answer.status)
        } catch { result = .failure(error) }
        await http.shutdown()
        return result
    }

    private func isNotSent(_ result: Result<Int, ProviderFailure>) -> Bool {
        if case .failure(.notSent) = result { true } else { false }
    }

    @Test("A provider's certificate has no trusted issuer → refused before anything is sent (SEC-111)")
    func untrusted() async throws {
        let server = try await TLSServer(named: "IP:127.0.0.1")
        #expect(isNotSent(await post(server, TransportSettings())))
    }

    @Test("A provider's certificate is trusted, but names another host → refused (SEC-111)")
    func otherName() async throws {
        let server = try await TLSServer(named: "DNS:id.example.com")
        #expect(isNotSent(await post(server, TransportSettings(caFile: server.certificate))))
    }

    @Test("The broker trusts a provider's certificate because of outbound.ca_file → the call succeeds")
    func trusted() async throws {
        let server = try await TLSServer(named: "IP:127.0.0.1")
        let result = await answer(server, TransportSettings(caFile: server.certificate))
        #expect((try? result.get()) != nil, "\(result)")
    }
}
