import BrokerProviders
import Foundation
import Testing

/// A certificate authority for one test; openssl makes its certificates during the test.
final class TestAuthority: Sendable {
    let folder: String
    private let name: String

    /// Makes a new authority with a folder of its own, which is removed when the authority is deinitialized.
    init(_ name: String = "root") throws {
        self.name = name
        folder = NSTemporaryDirectory() + "coatcheck-\(UUID().uuidString)"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        try openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=\(name) "
                + "-keyout \(name).key -out \(name).pem")
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// The path of the authority's own certificate.
    var root: String { "\(folder)/\(name).pem" }

    /// Signs a certificate for a DNS name; with a negative number of days, the certificate has already expired.
    @discardableResult
    func sign(_ certificate: String, for host: String, days: Int = 2) throws -> ClientIdentity.Files {
        try openssl(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=\(certificate) -keyout \(certificate).key "
                + "-out \(certificate).csr")
        try "subjectAltName=DNS:\(host)\n".write(
            toFile: "\(folder)/\(certificate).ext", atomically: true, encoding: .utf8)
        try openssl(
            "x509 -req -in \(certificate).csr -CA \(name).pem -CAkey \(name).key -CAcreateserial -days \(days) "
                + "-extfile \(certificate).ext -out \(certificate).pem")
        return ClientIdentity.Files(
            certificate: "\(folder)/\(certificate).pem", key: "\(folder)/\(certificate).key")
    }

    /// Reads a signed certificate.
    func identity(_ files: ClientIdentity.Files) throws -> ClientIdentity {
        ClientIdentity(try certificate(files), files: files)
    }

    func certificate(_ files: ClientIdentity.Files) throws -> ClientCertificate {
        try ClientCertificate(
            certificate: Array(try Data(contentsOf: URL(fileURLWithPath: files.certificate))),
            key: Array(try Data(contentsOf: URL(fileURLWithPath: files.key))))
    }

    private func openssl(_ arguments: String) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments.split(separator: " ").map(String.init)
        process.currentDirectoryURL = URL(fileURLWithPath: folder)
        process.standardError = Pipe()
        process.standardOutput = Pipe()
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0, "openssl \(arguments)")
    }
}
