import Broker
import Foundation
import Testing

@testable import BrokerProviders

/// OpenSSL's own test server with a certificate of ours.
private final class TLSServer {
    let certificate: String
    let port: Int
    private let folder: URL
    private let process: Process

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
        let free = try RawServer { _ in .close }
        port = free.port
        free.stop()
        process = try Self.run([
            "s_server", "-accept", "127.0.0.1:\(port)", "-www", "-quiet", "-cert", certificate, "-key", key,
        ])
        for _ in 0..<200 where !Self.listens(port) { try await Task.sleep(for: .milliseconds(25)) }
    }

    deinit {
        process.terminate()
        try? FileManager.default.removeItem(at: folder)
    }

    @discardableResult
    private static func run(_ arguments: [String]) throws -> Process {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: openssl)
        process.arguments = arguments
        process.standardInput = Pipe()
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        return process
    }

    private static func listens(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(UInt16(port).bigEndian)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
            }
        }
    }
}

@Suite("TLS to providers", .enabled(if: FileManager.default.isExecutableFile(atPath: TLSServer.openssl)))
struct TLSTests {
    private func post(_ server: TLSServer, _ settings: TransportSettings) async -> Result<Int, ProviderFailure> {
        let url = "https://127.0.0.1:\(server.port)/token"
        let request = ProviderRequest(method: "POST", url: url, connection: .single, body: Array("code=secret".utf8))
        return await answer(server, settings, request)
    }

    private func answer(
        _ server: TLSServer, _ settings: TransportSettings, _ request: ProviderRequest? = nil
    ) async -> Result<Int, ProviderFailure> {
        let http = ProviderHTTP(settings: settings)
        let result: Result<Int, ProviderFailure>
        do throws(ProviderFailure) {
            let answer = try await http.send(
                request ?? .get("https://127.0.0.1:\(server.port)/"),
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

    @Test("A certificate that nobody vouches for is refused before anything is sent (SEC-111)")
    func untrusted() async throws {
        let server = try await TLSServer(named: "IP:127.0.0.1")
        #expect(isNotSent(await post(server, TransportSettings())))
    }

    @Test("A certificate of another name is refused although its issuer is trusted (SEC-111)")
    func otherName() async throws {
        let server = try await TLSServer(named: "DNS:id.example.com")
        #expect(isNotSent(await post(server, TransportSettings(caFile: server.certificate))))
    }

    @Test("A certificate from outbound.ca_file is trusted")
    func trusted() async throws {
        let server = try await TLSServer(named: "IP:127.0.0.1")
        let result = await answer(server, TransportSettings(caFile: server.certificate))
        #expect((try? result.get()) != nil, "\(result)")
    }
}
