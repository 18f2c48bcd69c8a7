import Foundation

@testable import Coatcheck

/// A key in a file, made by the `openssl` program, so that the tests need no further package.
final class SoftwareProofKey: ProofKey, @unchecked Sendable {
    private let lock = NSLock()
    private let folder: URL
    private var made = 0
    private var isGone = false
    private var isBusy = false

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("proof-key-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    /// The number of keys that this object made.
    var keys: Int { lock.withLock { made } }

    /// Loses the key, like a device that was restored from a backup.
    func lose() { lock.withLock { isGone = true } }

    /// Returns a copy of the key, for the device from which the backup was made.
    func copy() throws -> SoftwareProofKey {
        let other = try SoftwareProofKey()
        try FileManager.default.copyItem(
            at: folder.appendingPathComponent("key.pem"), to: other.folder.appendingPathComponent("key.pem"))
        other.made = 1
        return other
    }

    /// Makes the key busy, or free again.
    ///
    /// The calls of a busy key throw.
    func busy(_ now: Bool) { lock.withLock { isBusy = now } }

    func publicKey() async throws -> ProofPublicKey? {
        if lock.withLock({ isBusy }) { throw Stack.Failure(text: "busy") }
        guard lock.withLock({ made > 0 && !isGone }) else { return nil }
        let info = try run(["pkey", "-in", "key.pem", "-pubout", "-outform", "DER"])
        return ProofPublicKey(x963: Data(info.suffix(65)))
    }

    func make() async throws -> ProofPublicKey {
        _ = try run(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", "key.pem"])
        lock.withLock { (made, isGone) = (made + 1, false) }
        guard let known = try await publicKey() else { throw Stack.Failure(text: "no key") }
        return known
    }

    func signature(over bytes: Data) async throws -> Data {
        guard try await publicKey() != nil else { throw CoatcheckError.keyLost }
        let file = folder.appendingPathComponent(UUID().uuidString)
        try bytes.write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        return try Self.raw([UInt8](run(["dgst", "-sha256", "-sign", "key.pem", file.path])))
    }

    /// Converts a signature's two numbers from DER into 32 bytes each.
    static func raw(_ der: [UInt8]) throws -> Data {
        var rest = der.dropFirst(2)
        var both = Data()
        for _ in 0..<2 {
            guard rest.count > 2, let length = rest.dropFirst().first.map(Int.init), rest.count >= 2 + length else {
                throw Stack.Failure(text: "no signature")
            }
            let number = rest.dropFirst(2).prefix(length).drop { $0 == 0 }
            both += Data(repeating: 0, count: 32 - number.count) + number
            rest = rest.dropFirst(2 + length)
        }
        return both
    }

    private func run(_ arguments: [String]) throws -> Data {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["openssl"] + arguments
        process.currentDirectoryURL = folder
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        let data = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Stack.Failure(text: "openssl \(arguments)") }
        return data
    }
}
