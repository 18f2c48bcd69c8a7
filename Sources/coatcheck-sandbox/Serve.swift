import ArgumentParser
import Glibc
import Logging
import Sandbox

/// Serves the providers until the process is stopped.
struct Serve: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Serve the providers; what is done where no subcommand is named.")

    @Option(help: "Address and port to listen on; port 0 takes a free one.")
    var listen = "127.0.0.1:8089"

    @Option(help: "Base URL in issuers and links, when it is not the listener's.")
    var baseURL: String?

    @Option(help: "A JSON file of users, clients, settings and faults to begin with.")
    var seed: String?

    @Flag(help: "Do not record requests.")
    var noRecord = false

    @Option(help: "Serve the playground at /playground/, for the broker at this URL.")
    var playground: String?

    @Option(help: "A port for TLS that asks for clients' certificates, with the three below; 0 takes a free one.")
    var mtlsPort: Int?

    @Option(help: "The PEM file of the certificate that it shows.")
    var mtlsCertificate: String?

    @Option(help: "The PEM file of its key.")
    var mtlsKey: String?

    @Option(help: "A PEM file of the roots whose certificates it takes.")
    var mtlsClientRoots: String?

    @Option(help: "The named pipe through which the playground has the broker killed and started again.")
    var playgroundCommands: String?

    func run() async throws {
        LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() }
        guard let colon = listen.lastIndex(of: ":"), let port = Int(listen[listen.index(after: colon)...]) else {
            throw ValidationError("--listen wants ADDRESS:PORT")
        }
        var start: SeedFile?
        if let seed {
            do throws(SeedFile.Refused) { start = try SeedFile(path: seed) } catch {
                throw ValidationError("--seed: \(error)")
            }
        }
        var mutualTLS: MutualTLSConfiguration?
        if let mtlsPort {
            guard let mtlsCertificate, let mtlsKey, let mtlsClientRoots else {
                throw ValidationError("--mtls-port wants --mtls-certificate, --mtls-key and --mtls-client-roots")
            }
            mutualTLS = MutualTLSConfiguration(
                port: mtlsPort, certificate: mtlsCertificate, key: mtlsKey, clientRoots: mtlsClientRoots)
        }
        // The sandbox has no data to save, so exit at once. Without a handler, a sandbox that is process 1 of a container would
        // ignore these signals.
        for number in [SIGTERM, SIGINT] { signal(number) { _ in _exit(0) } }
        let server = SandboxServer(
            configuration: SandboxConfiguration(
                host: String(listen[..<colon]), port: port, baseURL: baseURL, recording: !noRecord,
                seed: start,
                playground: playground.map {
                    PlaygroundConfiguration(broker: $0, commands: playgroundCommands)
                }, mutualTLS: mutualTLS))
        try await server.run { baseURL in
            LineOutput.write("sandbox listening on \(baseURL)")
        }
    }
}
